"""What those need who add to the library: ops in Python, kernels and devices in C++ (docs/extending.md).

from flambeau import extend
@extend.pointwise
def swish(s, x, beta: "scalar"): return x / (1 + s.exp(-beta * x))        # eager, compiled and fused like any other op
kernel = extend.cpp_kernel(text, "name")                                  # arrays in, arrays out
extend.load_device(text)                                                  # .to("toy")
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..runtime import plugin_abi
from ..runtime.plugin_abi import Kernel, KernelError
from . import dtypes
from .autograd.check import gradcheck, gradgradcheck
from .op.numpy_kernels import run_kernel
from .op.meta import Spec, infer
from .plugin import Runtime, load_device, register as register_device
from .op.op import OPS, Op, composite, extern, find, indexed, pointwise, random_op, reduction, scan, scatter, view
from .tensor import Tensor

__all__ = [
    "OPS",
    "Kernel",
    "KernelError",
    "Op",
    "Runtime",
    "Spec",
    "check",
    "composite",
    "cpp_kernel",
    "cpp_kernels",
    "extern",
    "find",
    "include_path",
    "indexed",
    "load_device",
    "pointwise",
    "random_op",
    "reduction",
    "register_device",
    "scan",
    "scatter",
    "view",
]


def include_path() -> str:
    """The folder of flambeau_op.h, for build systems of one's own."""
    return plugin_abi.HEADER.rpartition("/")[0]


def cpp_kernels(source: str, names: Sequence[str], flags: Sequence[str] = ()) -> list[Kernel]:
    """The functions of one C++ text (FLAMBEAU_KERNEL(name)), compiled once per content. The text includes
    "flambeau_op.h"; it is built without exceptions and without the C++ library unless `flags` say otherwise
    ("-fexceptions", "-lstdc++"). Raises CompilerError with the compiler's message."""
    library = plugin_abi.load(plugin_abi.build(source, flags))
    return [Kernel(library, name) for name in names]


def cpp_kernel(source: str, name: str, flags: Sequence[str] = ()) -> Kernel:
    """One function of a C++ text: `kernel(outs, ins, numbers)` on numpy arrays."""
    return cpp_kernels(source, [name], flags)[0]


def _make(*sizes: int, dtype=dtypes.float64) -> Tensor:
    """Normal numbers of float64 that require gradients, or small numbers of another type."""
    values = np.random.default_rng(sum(sizes) + 7 * len(sizes)).standard_normal(sizes)
    made = Tensor._fl_from_array((values if dtype.is_floating_point else 3 * values).astype(dtype.numpy), dtype)
    return made.requires_grad_(dtype is dtypes.float64)


def check(op: Op, samples: Sequence[tuple] | None = None) -> int:
    """Checks a record on its samples (or on these): the meta rule gives the sizes and types that the kernel gives, and the
    gradients are those of finite differences, also second ones. Returns how many there were; raises AssertionError."""
    rows = samples if samples is not None else () if op.sample_rule is None else op.sample_rule(_make)
    if not rows:
        raise AssertionError(f"{op.name} has no samples: nothing was checked")
    for args in rows:
        args = op.bind(tuple(args), {})
        _check_meta(op, args)
        if op.grads and any(isinstance(a, Tensor) and a.requires_grad and a.numel() for a in args):
            gradcheck(op, args)
            gradgradcheck(op, args)
    return len(rows)


def _check_meta(op: Op, args: tuple) -> None:
    if not (op.meta_rule or op.kind.name not in ("EXTERN", "COMPOSITE")):
        return
    plain = tuple([a.detach() if isinstance(a, Tensor) else a for a in args])
    outs = run_kernel(op, plain) if op.kernels or op.kind.name != "COMPOSITE" else op.fn(*plain)
    for k, (told, made) in enumerate(zip(infer(op, plain), outs if isinstance(outs, tuple) else (outs,))):
        if (tuple(told.sizes), told.dtype) != (tuple(made.shape), made.dtype):
            raise AssertionError(
                f"{op.name}: output {k} is {made.dtype}{list(made.shape)}, its meta rule says {told.dtype}{list(told.sizes)}"
            )
