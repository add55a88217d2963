"""The workloads: programs over any library with PyTorch's API, deterministic (parameters and inputs come from numpy).

    python benchmarks/workloads.py --lib flambeau --mode compiled --workload gpt_train     (one JSON line on stdout)

What is told: seconds per step (median), seconds of the first step with everything before it, the peak of memory above what
the imports took, the share of the steps that ran in generated code and templates where the library counts it, and means of
the results.
"""

import argparse
import gc
import importlib
import json
import os
import statistics
import sys
import time

import loops  # noqa: F401, I001    (these three register their rows, in the order of the table)
import networks  # noqa: F401
import images  # noqa: F401
from registry import WORKLOADS, Inputs


def native_seconds(lib):
    """What the library has counted of its own kernels so far; None where it does not count."""
    count = getattr(lib.compiler, "native_seconds", None)
    return count() if count else None


def measure(lib, step, budget):
    """Median over batches of calls long enough to time, within a budget of seconds; the share of it in kernels."""
    step()
    start = time.perf_counter()
    step()
    once = max(time.perf_counter() - start, 1e-7)
    calls = max(1, int(0.02 / once))
    samples, deadline = [], time.perf_counter() + budget
    before = native_seconds(lib)
    gc.disable()
    while time.perf_counter() < deadline or len(samples) < 3:
        start = time.perf_counter()
        for _ in range(calls):
            step()
        samples.append((time.perf_counter() - start) / calls)
    gc.enable()
    native = before is not None and (native_seconds(lib) - before) / (sum(samples) * calls)
    return statistics.median(samples), native or None


def peak_mb():
    """The most memory that this program has held; the system's record of it starts anew with each program."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def fingerprint(out):
    flat = list(out) if isinstance(out, (tuple, list)) else [out]
    return [float(t.detach().double().abs().mean()) for t in flat]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lib", required=True)
    parser.add_argument("--mode", choices=("eager", "compiled"), required=True)
    parser.add_argument("--workload", choices=sorted(WORKLOADS), required=True)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--budget", type=float, default=1.5, help="seconds of measuring")
    options = parser.parse_args()
    lib = importlib.import_module(options.lib)
    for name in ("nn.functional", "optim", "compiler"):
        importlib.import_module(f"{options.lib}.{name}")
    lib.set_num_threads(options.threads)
    imported, start = peak_mb(), time.perf_counter()
    wrap = lib.compile if options.mode == "compiled" else lambda f, **settings: f
    step = WORKLOADS[options.workload]["build"](lib, Inputs(lib), wrap)
    prints, built = fingerprint(step()), time.perf_counter() - start
    seconds, native = measure(lib, step, options.budget)
    json.dump(
        {
            "seconds": seconds,
            "first_seconds": built,
            "fingerprint": prints,
            "native_share": native,
            "peak_mb": peak_mb() - imported,
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
