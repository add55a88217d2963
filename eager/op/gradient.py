"""Gradient formulas of records: which of the forward's values a formula names, and how it is called.

In: a function whose arguments are matched by name. Out: a `Formula` that tells what must be saved (inputs, outputs,
or only their `Meta`), so that a node keeps exactly that and runs a formula only for inputs that need it.
"""

from __future__ import annotations

from typing import Any
from collections.abc import Callable, Iterable

from ..signature import REQUIRED, annotated


class Meta:
    """What is kept of a tensor whose values a formula does not need (annotate the argument `: Meta`)."""

    __slots__ = ("shape", "dtype", "device")

    def __init__(self, shape: tuple, dtype: Any, device: Any):
        self.shape, self.dtype, self.device = shape, dtype, device

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @staticmethod
    def of(x):
        return Meta(x.shape, x.dtype, x.device) if hasattr(x, "device") and hasattr(x, "dtype") else x


_conjugate: list[Callable] = []  # the record `conj`, once it is defined


def explicit(fn):
    """Marks a gradient formula that treats complex numbers itself, because its record is not holomorphic."""
    fn.explicit = True
    return fn


class Formula:
    """A gradient function and where its arguments come from.

    Formulas of holomorphic records are written as for real numbers, gradient = g * derivative. For complex gradients
    PyTorch's convention wants the derivative conjugated: the formula runs on the conjugate of g, and its result is
    conjugated.

    `sources`: per argument (kind, number): "grad" k-th output's gradient, "param" k-th argument, "out" k-th output,
    "needs".
    """

    __slots__ = ("fn", "sources", "params", "outs", "metas", "explicit")

    def __init__(self, op, fn: Callable, sources: list | None = None, metas: Iterable = frozenset()):
        self.fn, self.metas, self.explicit = fn, set(metas), getattr(fn, "explicit", False)
        self.sources = list(sources) if sources is not None else self._match(op)
        self.params = tuple(k for kind, k in self.sources if kind == "param")
        self.outs = tuple(k for kind, k in self.sources if kind == "out")

    def _match(self, op) -> list:
        sources = []
        for name, annotation in annotated(self.fn):
            source = self._source(op, name)
            sources.append(source)
            if annotation is not REQUIRED and str(getattr(annotation, "__name__", annotation)).strip("'\"").endswith("Meta"):
                self.metas.add(source)
        return sources

    @staticmethod
    def _source(op, name):
        if name == "needs":
            return "needs", 0
        if name in op.names:
            return "param", op.names[name]
        if name == "g":
            differentiable = [k for k, o in enumerate(op.outputs) if o.differentiable]
            if len(differentiable) == 1:
                return "grad", differentiable[0]
            raise ValueError(
                f"{op.name} has several differentiable outputs: name their gradients "
                + ", ".join(f"g_{op.outputs[k].name}" for k in differentiable)
            )
        outs = {o.name: k for k, o in enumerate(op.outputs)}
        if name in outs:
            return "out", outs[name]
        if name.startswith("g_") and name[2:] in outs:
            return "grad", outs[name[2:]]
        raise ValueError(
            f"gradient of {op.name}: {name!r} is no parameter ({', '.join(op.names)}), no output ({', '.join(outs)}), "
            "and not g or needs"
        )

    def __call__(self, grads, args, outs, needs):
        if not self.explicit:
            for g in grads:
                if g is not None and g._fl_dtype.is_complex:
                    flipped = [g if g is None or not g._fl_dtype.is_complex else _conjugate[0](g) for g in grads]
                    return conjugated(self.run(flipped, args, outs, needs))
        return self.run(grads, args, outs, needs)

    def run(self, grads, args, outs, needs):
        values = {"grad": grads, "param": args, "out": outs}
        return self.fn(*[needs if kind == "needs" else values[kind][k] for kind, k in self.sources])


def conjugated(value):
    """The conjugate of a gradient, or of each in a tuple, list or dictionary."""
    if isinstance(value, dict):
        return {name: conjugated(v) for name, v in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(conjugated(v) for v in value)
    return _conjugate[0](value) if value is not None and value.dtype.is_complex else value
