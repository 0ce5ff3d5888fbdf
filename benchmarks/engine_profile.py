"""Where the time of a step goes, kernels by kind: a part of benchmarks/engine.py."""

import re
import time
from collections import defaultdict

import torch
from engine_epochs import WATERBIRDS, epochs_of, feed_of, images
from torch.profiler import ProfilerActivity, profile

KERNELS = {  # by what is in a kernel's name; the first that fits
    "fused by the compiler: BatchNorm, ReLU, additions": r"^triton_",
    "copies": r"Memcpy|Memset|copy_kernel",
    "BatchNorm": r"batch_?norm|bn_(fw|bw)",
    "optimizer": r"multi_tensor|fused_sgd",
    "convolutions and matrix products": r"conv|gemm|xmma|cutlass|cudnn|nvjet|sm\d\d_|grad_engine",
    "elementwise and reductions": r"elementwise|vectorized|reduce|pool|softmax|index|gather|cat|fill",
}


def kind_of(kernel):
    return next((kind for kind, pattern in KERNELS.items() if re.search(pattern, kernel, re.IGNORECASE)), "others")


def profile_rows(options):
    """Return where the time of a step goes, for each way of running it: kernels by kind, and no kernel at all."""
    net, n, side, classes, batch = WATERBIRDS
    data, rows = images(n, side, classes), []
    for engine in ("plain", "captured", "compiled"):
        profiler, spans = profile(activities=[ProfilerActivity.CUDA]), []

        def watch(epoch, profiler=profiler, spans=spans):
            torch.cuda.synchronize()
            if epoch == 4:
                profiler.start()
            spans.append(time.perf_counter())
            if epoch == 5:
                profiler.stop()

        epochs_of(feed_of(data, engine), net, batch, epochs=5, watch=watch)
        took, steps = spans[-1] - spans[-2], -(-n // batch)
        spent = defaultdict(float)
        for event in profiler.key_averages():
            spent[kind_of(event.key)] += event.self_device_time_total / 1e6
        spent["no kernel"] = max(0.0, took - sum(spent.values()))
        for kind, seconds in sorted(spent.items(), key=lambda item: -item[1]):
            rows.append({"steps": engine, "kernels": kind, "ms a step": 1e3 * seconds / steps, "share": seconds / took})
            print(rows[-1], flush=True)
    return rows
