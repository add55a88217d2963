"""Every name that the lists of used names have is called in a comparison with PyTorch: by a program of listed_*.py, eagerly
and compiled, or by the random calls of test_fuzz.py.

LISTED_BACKEND: which backend compiles (default "loops", which runs the lowered loops without a compiler of C++);
LISTED_TESTS=all: every program is compiled, else those of layers and every third of the others.
"""

import os
import pathlib

import pytest

torch = pytest.importorskip("torch")

import flambeau

from . import fuzz_elements, fuzz_layers, fuzz_numbers, fuzz_shapes  # noqa: F401 (the tables)
from . import listed
from .fuzz_draw import TABLE

BACKEND = os.environ.get("LISTED_BACKEND", "loops")


# first name of a program -> why it has no compiled run
NOT_COMPILED = {
    "op:no_grad": "tensors of a compiled call in inference mode are ordinary ones",
    "torch.autograd.profiler.profile": "profiles are taken around compiled calls, not inside",
}


def runs():
    """(names, how)"""
    for k, (names, source) in enumerate(listed.PROGRAMS.items()):
        yield names, "eager"
        chosen = "r = layer(" in source or k % 3 == 0 or os.environ.get("LISTED_TESTS") == "all"
        if chosen and names[0] not in NOT_COMPILED:
            yield names, "compiled"


@pytest.mark.parametrize("names, how", runs(), ids=lambda part: part if isinstance(part, str) else part[0])
def test_program(names, how):
    source = listed.PROGRAMS[names]
    found = listed.agree(listed.call(flambeau, source, BACKEND if how == "compiled" else None), theirs(names))
    assert not found, f"{found}\n\n{source}"


KEPT = {}


def theirs(names):
    """What PyTorch makes of a program, once."""
    if names not in KEPT:
        KEPT[names] = listed.call(torch, listed.PROGRAMS[names])
    return KEPT[names]


# names without a comparison -> why
EXCEPTIONS = {
    **dict.fromkeys(("op:to_sparse", "op:sparse_coo_tensor", "op:spmm", "op:_indices"), "sparse tensors are no part of this"),
    **dict.fromkeys(
        ("op:_make_per_tensor_quantized_tensor", "op:int_repr", "op:q_scale", "op:q_zero_point"), "there are no quantized tensors"
    ),
    **dict.fromkeys(
        ("torch.nn.parallel.scatter", "torch.nn.parallel._functions.Scatter", "torch.nn.parallel.parallel_apply"),
        "between GPUs: both libraries refuse here",
    ),
    "torch.nested.nested_tensor": "missing",
    **dict.fromkeys(
        """torch.nn.rnn.GRU torch.nn.rnn.RNN torch.nn.rnn.LSTM torch.nn.transformer.TransformerEncoderLayer
        torch.nn.transformer.TransformerEncoder torch.nn.container.ModuleList torch.nn.normalization.LayerNorm
        torch.nn.activation.MultiheadAttention torch.nn.dropout.Dropout torch.nn.instancenorm.InstanceNorm2d
        torch.nn.linear.Linear torch.nn.sparse.Embedding""".split(),
        "PyTorch 2.13 has them in torch.nn.modules only",
    ),
}


def listed_names():
    rows = (pathlib.Path(__file__).parents[2] / "docs/api_names.txt").read_text().splitlines()
    return {row.split("\t")[2] for row in rows if not row.startswith("#")}


def drawn(name):
    """Whether random calls reach it: a function, a function of nn.functional, or a method."""
    functions = {entry.call.rpartition(".")[2] for entry in TABLE.values() if isinstance(entry.call, str)}
    space, _, last = name.rpartition(".")
    if name.startswith("op:"):
        return not functions.isdisjoint(name[3:].split("/"))
    return space in ("torch", "Tensor", "torch.nn.functional", "torch.fft", "torch.linalg", "torch.special") and last in functions


def test_every_listed_name_is_compared_with_torch():
    programmed = {name for names in listed.PROGRAMS for name in names}
    assert {name for name in listed_names() - programmed if not drawn(name)} == EXCEPTIONS.keys()


def test_programs_use_what_they_are_listed_for():
    assert [name for names, source in listed.PROGRAMS.items() for name in names if not listed.spoken(name, source)] == []
