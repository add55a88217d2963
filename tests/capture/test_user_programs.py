"""Programs as users write them, plainly and compiled: results, exceptions with their tracebacks, output, warnings, what they leave
behind, and the number of graph breaks.

`user_programs/*.txt` holds them, each under a line `### name`, with `breaks=n` for graph breaks that are meant, `breaks=any` where
their number is not the point (an exception that reaches the caller is one, and Pythons differ in it), with `whole` where the whole
compiler takes part. A program is a module with `f`, and `args()` for calls other than the usual
three; `watch()` tells what else is to be compared. Each is here because it once showed a difference or a needless break.
"""

import contextlib
import io
import linecache
import pathlib
import random
import re
import sys
import traceback
import types
import warnings

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.runtime import counters
from flambeau.runtime.config import config

FOLDER = pathlib.Path(__file__).parent / "user_programs"
OPAQUE = ("logging", "threading", "random", "contextvars", "weakref")


def read(path):
    """(name, wanted breaks, backends, source) of each program of a file."""
    for text in re.split(r"^### ", path.read_text(), flags=re.M)[1:]:
        head, source = text.split("\n", 1)
        name, *options = head.split()
        wanted = dict(option.split("=") for option in options if "=" in option).get("breaks", "0")
        whole = "whole" in options and sys.version_info < (3, 12)
        yield name, wanted, ("eager", "inductor") if whole else ("eager",), source


PROGRAMS = [(path.stem, *program) for path in sorted(FOLDER.glob("*.txt")) for program in read(path)]


# -- what is compared --------------------------------------------------------------------------------------------------


def shown(value, around=frozenset()):
    """A value as data that compares by content."""
    if isinstance(value, torch.Tensor):
        numbers = value.detach().double().numpy().round(3).tolist() if value.dtype.is_floating_point else value.tolist()
        grad = shown(value.grad) if value.is_leaf and value.grad is not None else None
        return "tensor", str(value.dtype), tuple(value.shape), value.requires_grad, numbers, grad
    if id(value) in around or len(around) > 8:
        return "around"
    inside = around | {id(value)}
    if isinstance(value, (list, tuple)):
        members = tuple.__iter__(value) if isinstance(value, tuple) else value
        return type(value).__name__, [shown(v, inside) for v in members]
    if isinstance(value, dict):
        return type(value).__name__, [(shown(k), shown(v, inside)) for k, v in value.items()]
    if isinstance(value, (set, frozenset)):
        return type(value).__name__, sorted(map(repr, value))
    if isinstance(value, float):
        return "float", float(f"{value:.5g}")
    if isinstance(value, nn.Module):
        return type(value).__name__, value.training, shown(value.state_dict(), inside), sorted(value.__dict__)
    if isinstance(value, (types.FunctionType, types.ModuleType)):
        return value.__name__
    if type(value).__module__.startswith(OPAQUE) or isinstance(value, (type, torch.Generator)):
        return str(type(value))
    if hasattr(value, "__dict__"):
        return type(value).__name__, shown(vars(value), inside)
    return re.sub(r"0x[0-9a-f]+", "0x", repr(value))


def told(error, filename, depth=0):
    """An exception, the lines of the program in its traceback, and the exceptions that hang on it."""
    if error is None or depth > 3:
        return None
    lines = [(frame.lineno, frame.name) for frame in traceback.extract_tb(error.__traceback__) if frame.filename == filename]
    return (
        type(error).__name__,
        str(error),
        lines,
        told(error.__cause__, filename, depth + 1),
        told(error.__context__, filename, depth + 1),
        error.__suppress_context__,
        getattr(error, "__notes__", None),
    )


# -- running -----------------------------------------------------------------------------------------------------------


def load(name, source):
    """A new module of the program, whose lines tracebacks and guards find."""
    filename = f"<user program {name}>"
    linecache.cache[filename] = len(source), None, source.splitlines(True), filename
    module = types.ModuleType(f"user_program_{name}")
    module.__dict__.update(torch=torch, nn=nn, F=nn.functional)
    sys.modules[module.__name__] = module
    exec(compile(source, filename, "exec"), module.__dict__)
    return module, filename


def usual():
    return [(torch.arange(6.0).reshape(2, 3),), (torch.arange(6.0).reshape(2, 3) - 3,), (torch.arange(12.0).reshape(3, 4),)]


def call(function, args, filename):
    """What a call gives; what requires grad is differentiated."""
    try:
        found = function(*args)
        grown = [
            v
            for v in (found if type(found) is tuple else (found,))
            if isinstance(v, torch.Tensor) and v.requires_grad and v.grad_fn is not None
        ]
        if grown:
            sum(v.sum() for v in grown).backward()
        return "returned", shown(found)
    except Exception as error:
        return "raised", told(error, filename)


def observed(name, source, backend=None):
    """Everything that can be seen of a run."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    module, filename = load(name, source)
    torch.compiler.reset()
    function = torch.compile(module.f, backend=backend) if backend else module.f
    seen, printed = [], io.StringIO()
    with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stdout(printed), config.patch(recompile_limit=64):
        warnings.simplefilter("always")
        for args in module.args() if hasattr(module, "args") else usual():
            seen += [call(function, args, filename), shown(list(args))]
            seen += [shown(module.watch())] if hasattr(module, "watch") else []
    seen.append(printed.getvalue().splitlines())
    seen.append([(w.category.__name__, str(w.message), w.lineno if w.filename == filename else None) for w in warned])
    seen.append([(k, shown(v)) for k, v in sorted(vars(module).items()) if k.isupper() and k != "F"])
    return seen


def breaks():
    return sum(counters.snapshot()["breaks"].values())


@pytest.mark.parametrize("file, name, wanted, backends, source", PROGRAMS, ids=[f"{p[0]}-{p[1]}" for p in PROGRAMS])
def test_compiled_programs_do_what_plain_ones_do(file, name, wanted, backends, source):
    plain = observed(name, source)
    for backend in backends:
        for expected, found in zip(plain, observed(name, source, backend), strict=True):
            assert found == expected, f"{backend}:\n{source}"
        assert wanted in ("any", str(breaks())), f"{dict(counters.snapshot()['breaks'])}\n{source}"
        assert not counters.snapshot()["fallbacks"]


def test_a_wrong_result_is_seen():
    """The comparison tells programs apart that differ in one number, one line, one text or one mutation."""
    source = "LOG = []\ndef f(x):\n    LOG.append(1)\n    if x.shape[0] == 3:\n        raise ValueError('a')\n    return x + 1\n"
    right = observed("right", source)
    for old, new in (("x + 1", "x + 2"), ("'a'", "'b'"), ("append(1)", "append(2)"), ("LOG.append", "\n    LOG.append")):
        assert observed("right", source.replace(old, new)) != right
