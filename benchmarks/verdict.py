"""How often the verdict says "shortcut" on the embedded digits, over alpha, the part whose colour gives the digit away.

    python benchmarks/verdict.py [--alphas 0.1 0.9] [--seeds 100] [--jobs 2]     goes on where it was stopped

Seeds start from 100: those below were looked at while the statistic was chosen (docs/verdict.md).

At alpha = 0.1 the colour is independent of the digit: there is no shortcut, and what is found is an error. A run is
`tcsl run digits` with that alpha and seed, methods cb_erm and tcsl_cs: the verdict is the one that a user gets.
"""

import argparse
import json
import multiprocessing
import tempfile
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from common import RESULTS, write

from tcsl.config import resolve
from tcsl.environment import describe_environment
from tcsl.files import write_atomic
from tcsl.running import load_dataset, run_splits

ALPHAS = (0.1, 0.3, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99)


def one(alpha, seed):
    warnings.simplefilter("ignore")
    overrides = {
        "seed": seed,
        "data.options.alpha": alpha,
        "methods": ["cb_erm", "tcsl_cs"],
        "device.device": "cpu",
        "device.threads": 1,
    }
    settings = resolve(dataset="digits", overrides=overrides)
    with tempfile.TemporaryDirectory() as folder:
        run = run_splits(load_dataset(settings), settings, out=Path(folder) / "run", page=False)
    about = describe_environment()
    wga = {name: run.result["evaluation"][name]["wga"] for name in ("cb_erm", "tcsl_cs")}
    return {
        "alpha": alpha,
        "seed": seed,
        **run.verdict.as_dict(),
        "wga": wga,
        "commit": about["commit"],
        "cpu": about["cpu"],
        "torch": about["packages"]["torch"],
    }


def read(records, alpha):
    path = records / f"alpha-{alpha:g}.json"
    return json.loads(path.read_text()) if path.exists() else []


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alphas", type=float, nargs="+", default=ALPHAS)
    parser.add_argument("--first", type=int, default=100, help="the first seed")
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--records", type=Path, default=RESULTS / "verdict")
    options = parser.parse_args()
    options.records.mkdir(parents=True, exist_ok=True)
    done = {(row["alpha"], row["seed"]) for alpha in ALPHAS for row in read(options.records, alpha)}
    seeds = range(options.first, options.first + options.seeds)
    todo = [(alpha, seed) for seed in seeds for alpha in options.alphas if (alpha, seed) not in done]
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        for future in as_completed([pool.submit(one, *pair) for pair in todo]):
            row = future.result()
            rows = sorted([*read(options.records, row["alpha"]), row], key=lambda each: each["seed"])
            lines = ",\n".join(json.dumps(each) for each in rows)
            write_atomic(options.records / f"alpha-{row['alpha']:g}.json", f"[\n{lines}\n]\n")
            print(f"alpha {row['alpha']:g}, seed {row['seed']}: {row['sentence']}", flush=True)
    found = {alpha: read(options.records, alpha) for alpha in ALPHAS}
    write(
        "verdict",
        [
            {"alpha": alpha, "runs": len(rows), "found": sum(row["found"] is True for row in rows)}
            for alpha, rows in found.items()
            if rows
        ],
    )


if __name__ == "__main__":
    main()
