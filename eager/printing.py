"""repr of tensors, as PyTorch prints them: aligned columns, 4 digits, scientific where the range asks for it,
summarised beyond 1000 elements.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import dtypes


OWN = "torch", __name__.partition(".")[0]  # packages whose classes print as tensors


class Options:
    precision, threshold, edgeitems, linewidth, sci_mode = 4, 1000, 3, 80, None


_PROFILES = {"default": (4, 1000, 3, 80), "short": (2, 1000, 2, 80), "full": (4, math.inf, 3, 80)}


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None) -> None:
    if profile is not None:
        Options.precision, Options.threshold, Options.edgeitems, Options.linewidth = _PROFILES[profile]
    for name, value in dict(precision=precision, threshold=threshold, edgeitems=edgeitems, linewidth=linewidth).items():
        if value is not None:
            setattr(Options, name, value)
    Options.sci_mode = sci_mode


def text(t, contents: str | None = None) -> str:
    """`tensor(...)` with the attributes that differ from the defaults. `contents`: what stands for the elements."""
    suffixes, start = [], beginning(t)
    array = t._fl_array
    if array is None and t._fl_storage.runtime is not None:
        array = t._fl_storage.runtime.read(t)
        suffixes.append(f"device='{t._fl_device}'")
    if array is None:
        suffixes += [f"device='{t._fl_device}'", f"size={tuple(t._fl_sizes)}"]
        body = "..."
    else:
        body = contents or ("[]" if array.size == 0 else values(array, t._fl_dtype, len(start)))
        if array.size == 0 and t.ndim != 1:
            suffixes.append(f"size={tuple(t._fl_sizes)}")
    if t._fl_dtype not in (dtypes.get_default_dtype(), dtypes.int64, dtypes.bool, dtypes.default_complex()) or (
        t.numel() == 0 and t._fl_dtype is not dtypes.get_default_dtype()
    ):
        suffixes.append(f"dtype={t._fl_dtype}")
    if t._grad_fn is not None:
        suffixes.append(f"grad_fn=<{t._grad_fn.name()}>")
    elif t._fl_requires_grad:
        suffixes.append("requires_grad=True")
    return join(start + body, suffixes, len(start))


def beginning(t) -> str:
    """A subclass is named, but for those of the library that are tensors like any other."""
    kind = type(t)
    return "tensor(" if kind.__module__.partition(".")[0] in OWN else f"{kind.__name__}("


def join(out: str, suffixes, indent: int = 7) -> str:
    """Suffixes on the last line where they fit, else on lines of their own."""
    length = len(out) - out.rfind("\n") - 1
    for suffix in suffixes:
        if length + len(suffix) + 2 > Options.linewidth:
            out += ",\n" + " " * indent + suffix
            length = indent + len(suffix)
        else:
            out += ", " + suffix
            length += len(suffix) + 2
    return out + ")"


def values(array: np.ndarray, dtype, indent: int) -> str:
    n = Options.edgeitems
    summarize = array.size > Options.threshold
    cut = tuple([summarize and size > 2 * n for size in array.shape])
    array = summary(array, cut) if summarize else array
    if array.dtype.kind == "V" or dtype.compute is not dtype:
        array = array.astype(np.float32)
    return nested(array, ComplexForm(array) if dtype.is_complex else Form(array, dtype), indent, cut)


def summary(array: np.ndarray, cut: tuple) -> np.ndarray:
    """The elements that are printed of a large array: both ends of the dims that are cut."""
    n = Options.edgeitems
    ends = [[*range(n), *range(size - n, size)] if short else range(size) for size, short in zip(array.shape, cut)]
    return array[np.ix_(*ends)]


class Form:
    """How one number is printed: integers by width, floats as integers with a dot, fixed or scientific. The width is
    that of finite numbers other than zero: nan, inf and lone zeros may be longer.
    """

    def __init__(self, array: np.ndarray, dtype):
        self.floating, self.whole, self.scientific, self.width = dtype.is_floating_point, True, False, 1
        flat = array.reshape(-1)
        if not self.floating:
            self.width = max((len(str(v)) for v in flat.tolist()), default=1)
            return
        usual = flat[np.isfinite(flat) & (flat != 0)].astype(np.float64)
        if usual.size:
            self.choose(usual)
        if Options.sci_mode is not None:
            self.scientific = Options.sci_mode
        self.width = max((len(self.plain(v)) for v in usual.tolist()), default=1)

    def choose(self, usual) -> None:
        low, high = float(np.abs(usual).min()), float(np.abs(usual).max())
        self.whole = bool((usual == np.ceil(usual)).all())
        self.scientific = high / low > 1000.0 or high > 1e8 or (not self.whole and low < 1e-4)

    def plain(self, v) -> str:
        if not self.floating:
            return str(v)
        if self.scientific:
            return f"{v:.{Options.precision}e}"
        if self.whole:
            return f"{v:.0f}." if math.isfinite(v) else f"{v:.0f}"
        return f"{v:.{Options.precision}f}"

    def __call__(self, v) -> str:
        return self.plain(v).rjust(self.width)


class ComplexForm:
    """Two numbers, the second with its sign and a j."""

    def __init__(self, array: Any):
        self.real, self.imaginary = Form(array.real, dtypes.float32), Form(array.imag, dtypes.float32)
        self.width = self.real.width + self.imaginary.width + 1

    def __call__(self, v) -> str:
        imaginary = self.imaginary(v.imag).lstrip() + "j"
        return self.real(v.real) + ("" if imaginary[0] in "+-" else "+") + imaginary


def nested(array: np.ndarray, form, indent: int, cut: tuple) -> str:
    """`cut`: the dims of which only the ends are here."""
    if array.ndim == 0:
        return form(array.item())
    if array.ndim == 1:
        return row(array, form, indent, cut[0])
    parts = [nested(part, form, indent + 1, cut[1:]) for part in array]
    if cut[0]:
        parts.insert(Options.edgeitems, "...")
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def row(array: np.ndarray, form, indent: int, cut: bool) -> str:
    cells = [form(v.item()) for v in array]
    if cut:
        cells.insert(Options.edgeitems, " ...")
    per_line = max(1, (Options.linewidth - indent) // (form.width + 2))
    lines = [", ".join(cells[k : k + per_line]) for k in range(0, len(cells), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
