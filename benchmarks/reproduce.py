"""The paper's headline on real data: one record a cell, never computed twice.

    python benchmarks/reproduce.py waterbirds --root DATA --weights FILE --net resnet50_v1 --seeds 0 1 2 --ratios 0.1

A cell is a method, a ratio and a seed; its record is a JSON file in docs/results/reproduction with the settings, the
command, the commit and the hardware. Scores are kept beside the records (as .npz), so that other ratios and rules can
use them. With --minutes the campaign stops before cells that would not fit; the same command goes on. With --jobs
several seeds of a cell train in turns on one GPU; with --model both one training has two records, of the last epoch and
of the averaged weights; with --frozen only a linear head is trained, on features of the net. Methods: core (f_c
itself), cb_erm, rgbal, random, tcsl_cs in the profiles default, fast and paper, and with one setting of the default
changed (cells.py). gb_erm and tcsl_cs_true are told the groups: they say what the data and the backbone allow.
"""

import argparse
import time
from functools import partial

import numpy as np
from campaign import Campaign
from cells import METHODS, USUAL, WITHOUT_RATIO, Cell
from common import RESULTS

from tcsl.config import DeviceSettings
from tcsl.selection.quota import read_ratio
from tcsl.training.device import settled
from tcsl.training.turns import in_turns


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", choices=("waterbirds", "cmnist"))
    parser.add_argument("--root", required=True)
    parser.add_argument("--weights", default="")
    parser.add_argument("--net", default="")
    parser.add_argument("--frozen", action="store_true", help="train a linear head alone, on features of --net")
    parser.add_argument("--lr", type=float, help="the paper's by default")
    parser.add_argument("--weight-decay", type=float, help="the same")
    parser.add_argument("--epochs", type=int, default=0, help="T; the paper's by default")
    parser.add_argument("--full-scores", action="store_true", help="scores from the paper's T, whatever --epochs is")
    parser.add_argument("--augment", default="none")
    parser.add_argument("--model", choices=("last", "average", "both"), default="last", help="the final model's epoch")
    parser.add_argument("--precision", choices=("auto", "float32"), default="auto", help="of the final model")
    parser.add_argument("--engine", default="auto", help="device.engine; compiled also pays for many short cells")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--ratios", type=read_ratio, nargs="+", default=[0.1], help="numbers, or for TCSL-CS auto")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(USUAL))
    parser.add_argument("--jobs", type=int, default=1, help="seeds of a cell that train in turns")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--records", default=str(RESULTS / "reproduction"))
    options = parser.parse_args()
    if options.model != "last" and options.precision == "float32":
        parser.error(f"--model {options.model} and --precision float32 have no name together: choose one")
    if options.frozen and not (options.net and options.weights):
        parser.error("--frozen needs the net that the features are of, and its weights: --net and --weights")
    if "auto" in options.ratios and (others := {"random", "rgbal"} & set(options.methods)):
        parser.error(f"--ratios auto is for TCSL-CS: name --methods without {', '.join(sorted(others))}")
    with settled(DeviceSettings()):
        run(options)


def run(options):
    """Run the cells whose records are missing."""
    started = time.monotonic()
    campaign = Campaign(options)
    together = [  # cells that train in turns
        [Cell(method, int(seed), ratio) for seed in seeds]
        for seeds in np.array_split(options.seeds, -(-len(options.seeds) // options.jobs))
        for method in options.methods
        for ratio in ([None] if method in WITHOUT_RATIO else options.ratios)
    ]
    longest = 0.0
    for cells in together:
        todo = [cell for cell in cells if campaign.records.missing(cell)]
        begun = time.monotonic()
        if todo and begun + longest - started > 60 * options.minutes:
            print(f"stopped before {campaign.records.named(todo[0])}: the minutes are used up")
            return
        campaign.in_turns = max(1, len(todo))
        in_turns([partial(campaign.run, cell) for cell in todo])
        longest = max(longest, time.monotonic() - begun)


if __name__ == "__main__":
    main()
