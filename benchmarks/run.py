"""The table of benchmarks/README.md: all contestants in turn, in fresh processes, medians over the rounds.

    python benchmarks/run.py [--rounds 5 | --quick] [--workloads a,b] [--peer-python PYTHON] [--write]

`--peer-python` names an interpreter that has torch (default: this one, where torch is installed); without it the peer's
columns stay empty. `--quick` is one round of short measurements. `--write` renews the table in benchmarks/README.md.
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
    """Library, mode and interpreter of each."""
    rows = [("flambeau", "eager", sys.executable), ("flambeau", "compiled", sys.executable)]
    peer = options.peer_python or sys.executable
    if shutil.which(peer) is None:
        sys.exit(f"--peer-python {peer}: there is no such program")
    if subprocess.run([peer, "-c", "import torch"], capture_output=True).returncode == 0:
        rows += [("torch", "eager", peer), ("torch", "compiled", peer)]
    return rows


def measure(lib, mode, python, name, options, cache):
    """One fresh process; None when it failed (the reason goes to stderr)."""
    environment = dict(
        os.environ,
        FLAMBEAU_CACHE_DIR=f"{cache}/flambeau",
        TORCHINDUCTOR_CACHE_DIR=f"{cache}/torch",
        OMP_NUM_THREADS=str(options.threads),
        FLAMBEAU_THREADS=str(options.threads),
    )
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as installed: modules are not compiled again at each start
    os.makedirs(f"{cache}/flambeau", mode=0o700, exist_ok=True)
    arguments = [
        "--lib",
        lib,
        "--mode",
        mode,
        "--workload",
        name,
        "--threads",
        str(options.threads),
        "--budget",
        str(options.budget),
    ]
    command = [python, str(HERE / "workloads.py"), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    if done.returncode:
        print(f"{name} {lib} {mode} failed: {done.stderr[-600:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])


def row(name, options):
    """What `summary` says of each contestant, all in turn in each round."""
    cache = tempfile.mkdtemp(prefix="flambeau-bench-")
    results = {}
    try:
        for _ in range(options.rounds):
            for lib, mode, python in options.contestants:
                results.setdefault((lib, mode), []).append(measure(lib, mode, python, name, options, cache))
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    return {key: summary(found) for key, found in results.items()}


def summary(found):
    """Medians; the cold start is that of the first round, which began with empty caches."""
    good = [one for one in found if one]
    if not good:
        return None
    middle = {key: statistics.median(one[key] or 0 for one in good) for key in ("seconds", "native_share", "peak_mb")}
    return {**middle, "cold": good[0]["first_seconds"], "fingerprint": good[0]["fingerprint"]}


def agree(results):
    prints = [found["fingerprint"] for found in results.values() if found]
    return all(abs(a - b) <= 5e-3 * abs(b) + 1e-4 for other in prints for a, b in zip(other, prints[0]))


def shown(seconds, name):
    unit, work = WORKLOADS[name]["unit"], WORKLOADS[name]["work"]
    if work:
        return f"{work / seconds:,.0f}"
    return f"{seconds * 1e6:.2f}" if unit == "µs" else f"{seconds * 1e3:.2f}"


def line(name, results):
    """A row of the table; what was not measured is a dash."""

    def cell(lib, mode, what, show):
        value = (results.get((lib, mode)) or {}).get(what)
        return show(value) if value else "–"

    ours, theirs = ((results.get((lib, "compiled")) or {}).get("seconds") for lib in ("flambeau", "torch"))
    times = [
        cell(lib, mode, "seconds", lambda seconds: shown(seconds, name))
        for mode in ("eager", "compiled")
        for lib in ("flambeau", "torch")
    ]
    ratio = f"{theirs / ours:.2f}" if ours and theirs else "–"
    agreement = "" if agree(results) else " (RESULTS DIFFER)"
    share = cell("flambeau", "compiled", "native_share", "{:.0%}".format)
    pairs = [
        [cell(lib, "compiled", what, show) for lib in ("flambeau", "torch")]
        for what, show in (("peak_mb", "{:.0f}".format), ("cold", "{:.2f}".format))
    ]
    return (
        "| "
        + " | ".join(
            [
                f"`{name}`: {WORKLOADS[name]['note']}",
                WORKLOADS[name]["unit"],
                *times,
                ratio + agreement,
                share,
                *(" / ".join(pair) for pair in pairs),
            ]
        )
        + " |"
    )


HEAD = (
    "what",
    "unit",
    "eager: ours",
    "PyTorch",
    "compiled: ours",
    "torch.compile",
    "torch.compile's time / ours",
    "ours: share in kernels",
    "peak MB: ours / torch.compile",
    "cold start s: ours / torch.compile",
)
HOW = (
    "Measured on {machine}, {threads} threads, {rounds} of fresh, alternating processes. Share in "
    "kernels: how much of the steps' time was spent in generated code and templates, counted by the program; what the "
    "rest of a step does (a loss or an optimizer that is not compiled, Python between graph breaks) is not in it. "
    "Peak: resident memory of the process above what it held when the libraries were imported. Cold start: building "
    "the model, compiling with an empty cache and the first step."
)


def machine():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    vectors = ", AVX-512" if any(line.startswith("flags") and "avx512f" in line for line in lines) else ""
    return f"{model}, {len(os.sched_getaffinity(0))} cores{vectors}, Python {platform.python_version()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one round, 0.3 s of measuring each")
    parser.add_argument("--workloads", help="comma-separated names (default: all)")
    parser.add_argument("--peer-python", help="an interpreter that has torch")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--write", action="store_true", help="renew the table in benchmarks/README.md")
    options = parser.parse_args()
    options.rounds, options.budget = (1, 0.3) if options.quick else (options.rounds, 1.5)
    names = options.workloads.split(",") if options.workloads else list(WORKLOADS)
    if unknown := set(names) - set(WORKLOADS):
        parser.error(f"no such workloads: {', '.join(sorted(unknown))}; there are {', '.join(WORKLOADS)}")
    options.contestants = contestants(options)
    lines = ["| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|"]
    print("\n".join(lines))
    for name in names:
        lines.append(line(name, row(name, options)))
        print(lines[-1], flush=True)
    rounds = "one round" if options.rounds == 1 else f"medians of {options.rounds} rounds"
    how = HOW.format(machine=machine(), threads=options.threads, rounds=rounds)
    if options.write:
        written("\n".join([*lines, "", how]))


def written(table):
    readme = HERE / "README.md"
    before, _, rest = readme.read_text().partition(BEGIN)
    readme.write_text(before + BEGIN + "\n" + table + "\n" + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()
