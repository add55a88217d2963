"""What a generated `kernels.py` does when it is run by itself: every kernel, once, on random numbers, in triton's interpreter.

In: the file's `run` and `buffers`. Out: a table of launches with their grids and times, and what the results look like. Edit
the kernels and run the file again.
"""

from __future__ import annotations

import importlib
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from . import triton_api
from .triton_text import TYPES

TYPES_OF = {"bool": np.bool_}


class Arrays:
    """`t` of a file's `run`: arrays by name, drawn or zeros, and numbers."""

    def __init__(self, found: Any, table: dict):
        self.found, self.tl = found, importlib.import_module("triton.language")
        generator = np.random.default_rng(0)
        self.table = table
        self.arrays = {name: drawn(generator, kind, dtype, extent) for name, (kind, dtype, _, extent) in table.items()}
        self.arrays["error"] = np.zeros(1, np.int32)

    def __getattr__(self, name: str) -> Any:
        if name in self.__dict__.get("arrays", ()):
            element = "i32" if name == "error" else TYPES.get(self.table[name][1], ("u8",))[0]
            return triton_api.address(self.found, self.tl, self.arrays[name].ctypes.data, element)
        if name == "eager":
            return lambda number: print(f"call {number} of the program is eager's: its results are left as zeros")
        if name in ("seed", "base"):
            return triton_api.number(self.found, self.tl, 0, "i64")
        if name.startswith("_"):
            raise AttributeError(name)
        return triton_api.number(self.found, self.tl, 0.5, "fp64")


def drawn(generator: Any, kind: str, dtype: str, extent: int) -> np.ndarray:
    """Normal numbers, or small whole ones, for what a call gives; zeros for what it makes."""
    made = np.dtype(getattr(ml_dtypes, dtype, None) or TYPES_OF.get(dtype, dtype))
    if kind not in ("input", "const"):
        return np.zeros(max(extent, 1), made)
    if dtype.startswith(("int", "uint", "bool")):
        return generator.integers(0, 2, max(extent, 1)).astype(made)
    return generator.standard_normal(max(extent, 1)).astype(made)


def main(run: Callable, buffers: Callable) -> None:
    filename = run.__code__.co_filename
    with open(filename) as file:
        namespace = triton_api.load(file.read(), interpreted=True)
    names = run.__code__.co_varnames[2 : run.__code__.co_argcount]
    sizes = dict(zip(names, buffers.__defaults__ or ()))
    with triton_api.interpreting() as found:
        arrays = Arrays(found, buffers(**sizes))
        namespace["run"](lambda *args, **blocks: launch(found, arrays, *args, **blocks), arrays, **sizes)
    for name, (kind, dtype, shape, _) in buffers(**sizes).items():
        if kind == "output":
            values = arrays.arrays[name].astype(np.float64)
            print(f"{name}: {dtype}{list(shape)}, mean {values.mean():.4g}, largest {np.abs(values).max():.4g}")
    if arrays.arrays["error"][0]:
        print(f"check {arrays.arrays['error'][0]} failed", file=sys.stderr)


def launch(found: Any, arrays: Arrays, kernel: Any, grid: Callable, *arguments: Any, **blocks: Any) -> None:
    names, shape = list(kernel.arg_names), grid(blocks)
    given = dict(zip(names, (triton_api.plain_number(found, arrays.tl, a) for a in arguments)))
    given |= {key: value for key, value in blocks.items() if key in names}
    start = time.perf_counter()
    if math.prod(shape):
        triton_api.run_grid(found, kernel, shape, given)
    print(f"{kernel.fn.__name__}{list(shape)}: {time.perf_counter() - start:.3f} s in the interpreter, {blocks}")
