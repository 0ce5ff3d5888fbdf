"""How alike the scores of one seed are on different hardware: a part of benchmarks/engine.py."""

import torch
from scipy.stats import spearmanr

from tcsl.api import score
from tcsl.data.digits import load as load_digits


def agreement_rows(options):
    """Return how alike the scores of one seed are on different hardware: rank correlations with one CPU thread."""
    float32 = {"device.device": "cuda", "device.precision": "float32"}
    ways = {
        "CPU, two threads": {"device.device": "cpu", "device.threads": 2},
        "GPU, float32": float32,
        "GPU, float32, convolutions in TF32 as torch does by itself": float32,
        "GPU, bfloat16": {"device.device": "cuda", "device.precision": "bfloat16"},
    }
    rows = []
    for name, epochs, biased, per_class in (("400 digits, T = 10", 10, 4, 40), ("1,200 digits, T = 40", 40, 4, 120)):
        data = load_digits(0, per_class=per_class).train
        small = {"train.epochs": epochs, "score.biased_epochs": biased, "train.lr": 0.01, "train.weight_decay": 5e-3}
        first = score(data, settings={**small, "device.device": "cpu", "device.threads": 1})
        for way, device in ways.items():
            torch.backends.cudnn.allow_tf32 = "TF32" in way
            other = score(data, settings={**small, **device})
            rows.append(
                {
                    "data": name,
                    "way": way,
                    "TCSL_s": float(spearmanr(first.tcsl_s, other.tcsl_s)[0]),
                    "TCSL_c": float(spearmanr(first.tcsl_c, other.tcsl_c)[0]),
                }
            )
            print(rows[-1], flush=True)
    return rows
