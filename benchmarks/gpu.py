"""Everything that needs a GPU, in one run of under 9 minutes: build, tests, measurements against PyTorch, a table.

    python benchmarks/gpu.py                 (writes benchmarks/results/gpu.json and gpu.md)

Every measurement is a process of its own with a limit of time; what fails or has no time left is a row that says so. Nothing is
fetched: what is not installed is taken from wheels in a folder (--wheels, .whl by default).
"""

import argparse
import contextlib
import glob
import importlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

from gpu_rows import ROWS, built, geometric_mean, work

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RUNS = (("flambeau", "compiled"), ("torch", "compiled"), ("torch", "eager"))
TESTS = ["tests/cuda", "tests/triton/test_device.py", "tests/triton/test_launch.py", "tests/triton/test_attention.py"]
BUILD, TEST, ROW = 150, 150, 60  # seconds at most
COPY = "copy"  # what the machine's memory gives: the measure of rows with bytes


def main(argv=None):
    options = arguments(argv)
    if options.child:
        print(json.dumps(child(*options.child.split(":"), options.device, options.size, options.seconds)))
        return 0
    deadline = time.monotonic() + 60 * options.minutes
    left = lambda: deadline - time.monotonic()
    result = {"machine": machine(), "build": None, "tests": None, "rows": []}
    with package() as path:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (path, os.environ.get("PYTHONPATH"))))
        if not options.no_build:
            result["build"] = build(options.wheels, min(BUILD, left()))
        if not options.no_tests:
            result["tests"] = tests(min(TEST, left()))
        names = options.rows.split(",") if options.rows else [COPY, *ROWS]
        for name in names:
            result["rows"].append(measured(name, options, left))
            write(result, options.out)
    print(open(write(result, options.out)).read())
    return 0 if passed(result) else 1


def arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=8.8)
    parser.add_argument("--rows", help=f"of {', '.join(ROWS)}")
    parser.add_argument("--out", default=os.path.join(ROOT, "benchmarks", "results"))
    parser.add_argument("--wheels", default=os.path.join(ROOT, ".whl"), help="a folder of wheels that are installed if there")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--size", choices=("full", "tiny"), default="full", help="tiny: does it run at all?")
    parser.add_argument("--seconds", type=float, default=1.0, help="of one measurement")
    parser.add_argument("--no-build", action="store_true")
    parser.add_argument("--no-tests", action="store_true")
    parser.add_argument("--child", metavar="LIBRARY:MODE:ROW", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


# -- the machine, the package, its tests


def machine():
    """What is measured on, as far as it can be told."""
    shown = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version,compute_cap,clocks.max.sm", "--format=csv,noheader"]
    try:
        gpu = subprocess.run(shown, capture_output=True, text=True, timeout=30).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        gpu = ""
    return {
        "gpu": gpu or "none",
        "cpu": f"{platform.machine()}, {os.cpu_count()} processors",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in ("torch", "triton", "numpy", *cupy_names())},
    }


def version(name):
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def cupy_names():
    return [name for name in ("cupy", "cupy-cuda12x", "cupy-cuda13x") if version(name)]


@contextlib.contextmanager
def package():
    """A folder on which `import flambeau` finds this tree."""
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(ROOT, os.path.join(folder, "flambeau"))
        yield folder


def build(wheels, seconds):
    """The extensions in place, for this Python."""
    found = sorted(glob.glob(os.path.join(wheels, "*.whl")))
    commands = [[sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", *found]] if found else []
    commands.append([sys.executable, "setup.py", "-q", "build_ext", "--inplace", "-j", str(os.cpu_count() or 1)])
    return [ran(command, seconds) for command in commands]


def tests(seconds):
    present = [t for t in TESTS if os.path.exists(os.path.join(ROOT, t))]
    pytest = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--import-mode=importlib"]
    return ran([*pytest, *present], seconds)


def ran(command, seconds):
    """The command's last lines, its exit code (None: no time) and its seconds."""
    start = time.monotonic()
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=max(1, seconds))
        code, text = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired as error:
        code, text = None, (error.stdout or b"").decode(errors="replace")
    return {
        "command": " ".join(command[1:]),
        "code": code,
        "seconds": round(time.monotonic() - start, 1),
        "end": text.strip().splitlines()[-5:],
    }


# -- one measurement


def child(lib_name, mode, name, device, size, seconds):
    """In a process of its own: seconds a step, on the host and with the device, and a number of the result."""
    lib = importlib.import_module(lib_name)
    wait = lib.cuda.synchronize if device != "cpu" else lambda: None
    if name == COPY:
        return {"seconds": copied(lib, device, wait, 1 << 28 if size == "full" else 64, seconds), "host": None, "value": None}
    plain = lambda f: f
    wanted = number(built(name, lib, device, plain, size)()) if (lib_name, mode) == ("flambeau", "compiled") else None
    step = built(name, lib, device, lib.compile if mode == "compiled" else plain, size)
    start = time.perf_counter()
    out = step()
    wait()
    first = time.perf_counter() - start
    value = number(out)
    away = wanted is not None and not abs(value - wanted) <= 0.03 * max(abs(wanted), 0.01)
    return {**timed(step, wait, seconds), "first": first, "value": value, "wrong": away}


def number(out):
    """What two runs are compared by."""
    return float(out.detach().float().mean())


def copied(lib, device, wait, n, seconds):
    a, b = lib.zeros(n, device=device), lib.zeros(n, device=device)
    return timed(lambda: b.copy_(a), wait, seconds)["seconds"]


def timed(step, wait, seconds):
    """Medians over rounds of several calls; `host`: until the calls have returned, which then wait for nothing."""
    step()
    wait()
    start = time.perf_counter()
    step()
    wait()
    calls = max(1, min(100, int(0.1 / max(time.perf_counter() - start, 1e-6))))
    whole, host, end = [], [], time.perf_counter() + seconds
    while not whole or time.perf_counter() < end:
        start = time.perf_counter()
        step()
        host.append(time.perf_counter() - start)
        for _ in range(calls - 1):
            step()
        wait()
        whole.append((time.perf_counter() - start) / calls)
    return {"seconds": statistics.median(whole), "host": statistics.median(host)}


def measured(name, options, left):
    """A row: the libraries' answers, or why there is none."""
    found = {"name": name}
    for lib, mode in RUNS if name != COPY else RUNS[-1:]:
        if left() < 5:
            found[f"{lib} {mode}"] = {"error": "no time was left"}
            continue
        command = [
            sys.executable,
            os.path.abspath(__file__),
            "--child",
            f"{lib}:{mode}:{name}",
            "--device",
            options.device,
            "--size",
            options.size,
            "--seconds",
            str(options.seconds),
        ]
        done = ran(command, min(ROW, left()))
        found[f"{lib} {mode}"] = answer(done)
    return found


def answer(done):
    if done["code"] == 0 and done["end"]:
        return json.loads(done["end"][-1])
    return {"error": "took too long" if done["code"] is None else (done["end"] or ["no output"])[-1][:300]}


# -- what it comes to


def summary(result, size="full"):
    """The figures that are asked for; None where a measurement is missing."""
    rows = {r["name"]: r for r in result["rows"]}
    seconds = lambda name, run: rows.get(name, {}).get(run, {}).get("seconds")
    ratio = lambda name: over(seconds(name, "torch compiled"), seconds(name, "flambeau compiled"))
    copy = seconds(COPY, "torch eager")
    bandwidth = over(2 * 4 * (1 << 28 if size == "full" else 64), copy)
    shares = {
        name: over(over(work(name, size)[1], seconds(name, "flambeau compiled")), bandwidth)
        for name in ROWS
        if work(name, size)[1]
    }
    products = {
        name: over(seconds(name, "torch eager"), seconds(name, "flambeau compiled")) for name in ROWS if name.startswith("matmul")
    }
    host = {run: rows.get("gpt_train", {}).get(run, {}).get("host") for run in ("flambeau compiled", "torch compiled")}
    known = [ratio(name) for name in ROWS if ratio(name)]
    return {
        "against torch.compile": geometric_mean(known),
        "rows compared": len(known),
        "of rows": len(ROWS),
        "copy GB/s": bandwidth and bandwidth / 1e9,
        "share of copy bandwidth": shares,
        "share of cuBLAS": products,
        "host seconds of gpt_train": host,
    }


def over(a, b):
    return a / b if a and b else None


def wrong(row):
    """Whether compiled code gave another result than eager."""
    return row.get("flambeau compiled", {}).get("wrong", False)


def passed(result):
    if any(map(wrong, result["rows"])):
        return False
    steps = [*(result["build"] or []), *([result["tests"]] if result["tests"] else [])]
    return all(s["code"] == 0 for s in steps) and all(
        "error" not in a for r in result["rows"] for a in r.values() if isinstance(a, dict)
    )


def write(result, folder):
    """Both files; gives the Markdown's path."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "gpu.json"), "w") as file:
        json.dump({**result, "summary": summary(result)}, file, indent=1)
    path = os.path.join(folder, "gpu.md")
    with open(path, "w") as file:
        file.write(markdown(result))
    return path


def markdown(result):
    machine, found = result["machine"], summary(result)
    lines = [
        "# On a GPU",
        "",
        f"{machine['gpu']}; {machine['cpu']}; Python {machine['python']}; "
        + ", ".join(f"{k} {v}" for k, v in machine["packages"].items() if v),
        "",
    ]
    for title, step in [("Build", s) for s in result["build"] or []] + [("Tests", s) for s in [result["tests"]] if s]:
        code = "took too long" if step["code"] is None else f"exit {step['code']}"
        lines.append(f"{title}: `{step['command'][:80]}`: {code}, {step['seconds']} s: {(step['end'] or [''])[-1]}")
    lines += [
        "",
        "| row | flambeau, ms | torch.compile, ms | torch eager, ms | torch.compile / flambeau |",
        "|---|---|---|---|---|",
    ]
    for r in result["rows"]:
        cells = [shown(r.get(f"{lib} {mode}")) for lib, mode in RUNS]
        ratio = over(*(r.get(run, {}).get("seconds") for run in ("torch compiled", "flambeau compiled")))
        told = "WRONG RESULT" if wrong(r) else f"{ratio:.2f}" if ratio else ""
        lines.append(f"| {r['name']} | {' | '.join(cells)} | {told} |")
    percent = lambda d: ", ".join(f"{k} {100 * v:.0f}%" for k, v in d.items() if v) or "not measured"
    mean = found["against torch.compile"]
    lines += [
        "",
        f"Geometric mean against torch.compile: {f'{mean:.2f}' if mean else 'not measured'} "
        f"({found['rows compared']} of {found['of rows']} rows).",
        f"Share of the bandwidth of a copy: {percent(found['share of copy bandwidth'])}.",
        f"Speed of products as a share of torch's (cuBLAS): {percent(found['share of cuBLAS'])}.",
        "Host, one step of gpt_train: "
        + ", ".join(f"{k} {1e3 * v:.2f} ms" for k, v in found["host seconds of gpt_train"].items() if v)
        + ".",
        "",
    ]
    return "\n".join(lines)


def shown(found):
    if not found:
        return ""
    return found["error"].replace("|", "/")[:60] if "error" in found else f"{1e3 * found['seconds']:.3f}"


if __name__ == "__main__":
    sys.exit(main())
