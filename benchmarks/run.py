"""The table of benchmarks/README.md: all contestants in turn, in fresh processes, medians over the rounds.

    python benchmarks/run.py [--rounds 5] [--workloads a,b] [--peer-python PYTHON] [--write]

`--peer-python` names an interpreter that has torch (default: this one, where torch is installed); without it the peer's
columns stay empty. `--write` renews the table in benchmarks/README.md.
"""

import argparse
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile

from workloads import WORKLOADS

HERE = pathlib.Path(__file__).resolve().parent
BEGIN, END = "<!-- table: make bench -->", "<!-- end of table -->"


def contestants(options):
    rows = [("flambeau", "eager", sys.executable), ("flambeau", "compiled", sys.executable)]
    peer = options.peer_python or sys.executable
    if shutil.which(peer) is None:
        sys.exit(f"--peer-python {peer}: there is no such program")
    if subprocess.run([peer, "-c", "import torch"], capture_output=True).returncode == 0:
        rows += [("torch", "eager", peer), ("torch", "compiled", peer)]
    return rows


def measure(lib, mode, python, name, options, cache):
    """One fresh process; None when it failed (the reason goes to stderr)."""
    environment = dict(os.environ, FLAMBEAU_CACHE_DIR=f"{cache}/flambeau", TORCHINDUCTOR_CACHE_DIR=f"{cache}/torch",
                       OMP_NUM_THREADS=str(options.threads), FLAMBEAU_THREADS=str(options.threads))
    environment.pop("PYTHONDONTWRITEBYTECODE", None)           # as installed: modules are not compiled again at each start
    os.makedirs(f"{cache}/flambeau", mode=0o700, exist_ok=True)
    arguments = ["--lib", lib, "--mode", mode, "--workload", name, "--threads", str(options.threads)]
    command = [python, str(HERE / "workloads.py"), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    if done.returncode:
        print(f"{name} {lib} {mode} failed: {done.stderr[-600:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])


def row(name, options):
    """Medians of seconds per step, and the first (cold) and last (warm) build seconds, by contestant."""
    cache = tempfile.mkdtemp(prefix="flambeau-bench-")
    results = {}
    try:
        for _ in range(options.rounds):
            for lib, mode, python in contestants(options):
                results.setdefault((lib, mode), []).append(measure(lib, mode, python, name, options, cache))
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    return {key: summary(found) for key, found in results.items()}


def summary(found):
    good = [one for one in found if one]
    if not good:
        return None
    return {"seconds": statistics.median(one["seconds"] for one in good), "cold": good[0]["first_seconds"],
            "warm": statistics.median(one["first_seconds"] for one in good[1:]) if good[1:] else None,
            "peak_mb": max(one["peak_mb"] for one in good), "fingerprint": good[0]["fingerprint"]}


def agree(results):
    prints = [found["fingerprint"] for found in results.values() if found]
    return all(abs(a - b) <= 5e-3 * abs(b) + 1e-4 for other in prints for a, b in zip(other, prints[0]))


def shown(seconds, name):
    if seconds is None:
        return "–"
    unit, work = WORKLOADS[name]["unit"], WORKLOADS[name]["work"]
    if work:
        return f"{work / seconds:,.0f}"
    return f"{seconds * 1e6:.2f}" if unit == "µs" else f"{seconds * 1e3:.2f}"


def line(name, results):
    get = lambda key, what: (results.get(key) or {}).get(what)
    cells = [shown(get((lib, mode), "seconds"), name) for lib in ("flambeau", "torch") for mode in ("eager", "compiled")]
    ours, theirs = get(("flambeau", "compiled"), "seconds"), get(("torch", "compiled"), "seconds")
    cold = [get((lib, "compiled"), "cold") for lib in ("flambeau", "torch")]
    ratio = f"{theirs / ours:.2f}" if ours and theirs else "–"
    agreement = "" if agree(results) else " (RESULTS DIFFER)"
    return (f"| {WORKLOADS[name]['note']} | {WORKLOADS[name]['unit']} | " + " | ".join(cells)
            + f" | {ratio}{agreement} | " + " | ".join(f"{c:.2f}" if c else "–" for c in cold) + " |")


def machine():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    vectors = ", AVX-512" if any(line.startswith("flags") and "avx512f" in line for line in lines) else ""
    return f"{model}, {len(os.sched_getaffinity(0))} cores{vectors}, Python {platform.python_version()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workloads", help="comma-separated names (default: all)")
    parser.add_argument("--peer-python", help="an interpreter that has torch")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--write", action="store_true", help="renew the table in benchmarks/README.md")
    options = parser.parse_args()
    lines = ["| what | unit | flambeau eager | flambeau compiled | torch eager | torch.compile | torch.compile's time / ours | "
             "ours: cold start s | torch.compile: cold start s |", "|---|---|---|---|---|---|---|---|---|"]
    for name in options.workloads.split(",") if options.workloads else WORKLOADS:
        lines.append(line(name, row(name, options)))
        print(lines[-1], flush=True)
    how = (f"Measured on {machine()}, {options.threads} threads, medians of {options.rounds} rounds of fresh, alternating "
           "processes. Cold start: building the model, compiling with an empty cache and the first step.")
    table = "\n".join([*lines, "", how])
    if options.write:
        readme = HERE / "README.md"
        before, _, rest = readme.read_text().partition(BEGIN)
        readme.write_text(before + BEGIN + "\n" + table + "\n" + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()
