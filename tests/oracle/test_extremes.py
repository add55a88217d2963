"""Every public function that a record stands behind, at the edges of its formula: results and derivatives against PyTorch, and
compiled against eager with the settings that users have.

EXTREME_CASES: how many calls are compared with PyTorch (default 1500); EXTREME_COMPILED: how many are compiled (default 60);
EXTREME_SEED: where they start.
"""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import flambeau

from . import fuzz, fuzz_elements, fuzz_extremes, fuzz_layers, fuzz_numbers, fuzz_shapes  # noqa: F401 (the tables)
from .fuzz_draw import TABLE
from .test_fuzz import forms

CASES = int(os.environ.get("EXTREME_CASES", 1500))
COMPILED = int(os.environ.get("EXTREME_COMPILED", 60))
SEED = int(os.environ.get("EXTREME_SEED", 0)) * 10**6
PARTS = 8
BATCH = 30


def drawn(part):
    """The cases of a part: entries in turn, those of elements, reductions and losses before others if there are few."""
    names = [name for k, name in enumerate(TABLE) if k % PARTS == part]
    return [
        (name, SEED + k // len(names))
        for k in range(part, part + max(len(names), CASES // PARTS))
        for name in [names[k % len(names)]]
    ]


@pytest.mark.parametrize("part", range(PARTS))
def test_calls(part):
    wrong = []
    for name, seed in drawn(part):
        entry = TABLE[name]
        check = fuzz_extremes.check_of(entry, flambeau, torch)
        case = fuzz_extremes.case_of(entry, seed, forms(entry.call))
        if check(case):
            small, text = fuzz.minimized(case, check, 60)
            wrong.append(f"{name}, seed {seed}: {text}\n{fuzz.program(small)}")
    assert not wrong, f"{len(wrong)} differ\n" + "\n\n".join(wrong[:5])


# edges that training meets, and their neighbours: always drawn
ALWAYS = (
    "F.binary_cross_entropy",
    "torch.norm",
    "linalg.vector_norm",
    "torch.std",
    "F.normalize",
    "torch.cosine_similarity",
    "F.pairwise_distance",
    "F.huber_loss",
    "F.smooth_l1_loss",
    "F.threshold",
    "torch.logit",
    "torch.addcmul",
)


@pytest.mark.parametrize("name", ALWAYS)
def test_edges_of_training(name):
    entry = TABLE[name]
    check = fuzz_extremes.check_of(entry, flambeau, torch)
    for seed in range(SEED, SEED + 25):
        case = fuzz_extremes.case_of(entry, seed, forms(entry.call))
        text = check(case)
        assert not text, f"{name}, seed {seed}: {text}\n{fuzz.program(case)}"


@pytest.mark.parametrize("fault", ["certain_answers_without_gradient", "norms_of_halves_in_halves", "far_errors_without_slope"])
def test_the_net_bites(fault):
    """With a mend taken back, in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "0",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "--fault",
        fault,
        __file__,
        "-k",
        "edges_of_training",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=pathlib.Path(__file__).parents[2])
    assert done.returncode == 1 and "AssertionError" in done.stdout, done.stdout[-2000:]


# nn.functional's functions that no entry calls -> why
UNLISTED = {
    "alpha_dropout": "draws",
    "dropout": "draws",
    "dropout1d": "draws",
    "dropout2d": "draws",
    "dropout3d": "draws",
    "feature_alpha_dropout": "draws",
    "fractional_max_pool2d": "draws",
    "fractional_max_pool2d_with_indices": "draws",
    "fractional_max_pool3d": "draws",
    "fractional_max_pool3d_with_indices": "draws",
    "gumbel_softmax": "draws",
    "adaptive_max_pool1d_with_indices": "an option",
    "adaptive_max_pool2d_with_indices": "an option",
    "adaptive_max_pool3d_with_indices": "an option",
    "max_pool1d_with_indices": "an option",
    "max_pool2d_with_indices": "an option",
    "max_pool3d_with_indices": "an option",
    "max_unpool1d": "max_unpool2d",
    "max_unpool3d": "max_unpool2d",
    "celu_": "in place",
    "elu_": "in place",
    "hardtanh_": "in place",
    "leaky_relu_": "in place",
    "relu_": "in place",
    "rrelu_": "in place",
    "selu_": "in place",
    "threshold_": "in place",
    "channel_shuffle": "torch.channel_shuffle",
    "native_channel_shuffle": "torch.channel_shuffle",
    "grouped_mm": "sizes of groups are data",
    "multi_head_attention_forward": "nn.MultiheadAttention",
    "upsample": "interpolate",
    "upsample_bilinear": "interpolate",
    "upsample_nearest": "interpolate",
}


def test_every_function_of_networks_is_drawn():
    assert fuzz_extremes.unlisted("F", flambeau.nn.functional) == UNLISTED.keys()


def test_every_kind_of_number_is_drawn():
    """In each type, and the largest and smallest ones as they are."""
    for dtype in fuzz.FLOATS:
        spec = fuzz.Spec((4000,), dtype, "extreme:any", 1)
        held = flambeau.from_numpy(fuzz.array_of(spec)).to(getattr(flambeau, dtype)).double().numpy()
        info = flambeau.finfo(getattr(flambeau, dtype))
        assert np.isnan(held).any() and {np.inf, -np.inf, info.max, info.min, info.tiny, 0.0, 1.0, -1.0} <= set(held.tolist())
        assert np.signbit(held[held == 0]).any() and np.any((np.abs(held) < info.tiny) & (held != 0))


# -- compiled


def compilable():
    """Cases of functions and methods that work eagerly, in turn over the table."""
    names = [name for name, entry in TABLE.items() if isinstance(entry.call, str) and not name.startswith(("linalg", "fft"))]
    step = 7  # (neighbours in the table are alike)
    order = [names[(k * step) % len(names)] for k in range(len(names))] if len(names) % step else names
    for k in range(10 * COMPILED):
        entry = TABLE[order[k % len(order)]]
        case = fuzz_extremes.case_of(entry, SEED + 5000 + k, ("function",))
        if case.form == "function" and fuzz.run(flambeau, case).error is None:
            yield case


@pytest.mark.parametrize("backend", ["loops", "inductor"])
def test_compiled_is_eager(backend):
    cases = [case for _, case in zip(range(COMPILED), compilable())]
    for k in range(0, len(cases), BATCH):
        batch = cases[k : k + BATCH]
        if not fuzz_extremes.compiled_differs(flambeau, batch, backend):
            continue
        for case in batch:
            text = fuzz_extremes.compiled_differs(flambeau, [case], backend)
            assert not text, text
        raise AssertionError(fuzz_extremes.compiled_differs(flambeau, batch, backend) or "differs once in two runs")
