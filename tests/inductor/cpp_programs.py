"""Small loop programs made by hand, and a check of the C++ backend against the loop interpreter on them."""

from __future__ import annotations

import numpy as np

from flambeau.capture.shapes.expr import var
from flambeau.eager import dtypes
from flambeau.inductor.loops import interpreter
from flambeau.inductor.cpp import async_compile
from flambeau.inductor.loops.ir import Axis, Body, Buffer, LoopKernel, Program, Reduce, Step, Store


def strides_of(sizes):
    strides, total = [], 1
    for size in reversed(sizes):
        strides.insert(0, total)
        total = total * size
    return tuple(strides)


def buffer(name, dtype, sizes, kind="input", strides=None, offset=0):
    return Buffer(name, dtype, tuple(sizes), strides or strides_of(sizes), offset, kind)


def program(body, kernels, inputs, outputs, symbols=(), scalars=(), arena=None, arena_size=0, temps=(), constants=None):
    buffers = tuple(
        dict.fromkeys([*(b for b in inputs if isinstance(b, Buffer)), *temps, *(b for b in outputs if isinstance(b, Buffer))])
    )
    return Program(
        buffers,
        tuple(kernels),
        tuple(inputs),
        tuple(outputs),
        symbols=tuple(symbols),
        scalars=tuple(scalars),
        constants=constants or {},
        checks=tuple(body.checks),
        arena=arena or {},
        arena_size=arena_size,
    )


def map_program(formula, dtypes_in, dtype_out, sizes=(37,), body=None):
    """out[i] = formula(body, loads) over one step."""
    body = body or Body()
    inputs = [buffer(f"x{k}", d, sizes) for k, d in enumerate(dtypes_in)]
    out = buffer("out", dtype_out, sizes, "output")
    axes = tuple(Axis(f"i{k}", n) for k, n in enumerate(sizes))
    index = tuple(a.var for a in axes)
    value = formula(body, *[body.load(b, index) for b in inputs])
    step = Step(axes, (Store(out, index, body.cast(value, dtype_out)),))
    return program(body, [LoopKernel("map", (), (step,))], inputs, [out])


def row_reduce(combine, dtype, acc_dtypes, rows, n, vector="inner", prologue=None):
    """One reduction over rows (inner) or columns (outer) whose results are all stored."""
    body = Body()
    x = buffer("x", dtype, (rows, n))
    i, j = Axis("i", rows), Axis("j", n)
    keep, along = (i, j) if vector == "inner" else (j, i)
    value = body.load(x, (i.var, j.var))
    value = prologue(body, value) if prologue else value
    values = (value, body.index(along.var)) if combine.startswith("arg") else (value,)
    names = tuple(f"acc{k}" for k in range(len(acc_dtypes)))
    outs = [buffer(f"out{k}", d, (keep.extent,), "output") for k, d in enumerate(acc_dtypes)]
    stores = tuple(Store(o, (keep.var,), body.acc(name, d)) for o, name, d in zip(outs, names, acc_dtypes))
    steps = (Step((along,), (), (Reduce(names, combine, values, tuple(acc_dtypes)),)), Step((), stores))
    return program(body, [LoopKernel("reduce", (keep,), steps, vector=vector)], [x], outs)


def check(p, inputs, scalars=None, rtol=2e-6, atol=1e-6, verify=True):
    """C++ and interpreter agree on the program; returns the C++ outputs."""
    if verify:
        p.verify()
    compiled = async_compile.load(p, wrap=False)
    copies = [x.copy() if isinstance(x, np.ndarray) else x for x in inputs]
    scalars = scalars or {}
    got = compiled(inputs, scalars.get("seed", 0), scalars.get("base", 0))
    want = interpreter.run(p, copies, scalars)
    for g, w in zip(got, want, strict=True):
        if isinstance(w, np.ndarray):
            assert g.dtype == w.dtype and g.shape == w.shape, (g.dtype, w.dtype, g.shape, w.shape)
            if w.dtype.kind in "biu":
                np.testing.assert_array_equal(g, w)
            else:
                np.testing.assert_allclose(g.astype(np.float64), w.astype(np.float64), rtol=rtol, atol=atol)
        else:
            assert g == w
    return got


def data(dtype, sizes, seed=0, low=-4.0, high=4.0):
    rng = np.random.default_rng(seed)
    if dtype is dtypes.bool:
        return rng.integers(0, 2, sizes).astype(bool)
    if dtype.is_floating_point:
        return rng.uniform(low, high, sizes).astype(dtype.numpy)
    return rng.integers(0 if not dtype.is_signed else int(low), int(high) + 5, sizes).astype(dtype.numpy)


__all__ = [
    "Axis",
    "Body",
    "Buffer",
    "LoopKernel",
    "Program",
    "Reduce",
    "Step",
    "Store",
    "buffer",
    "check",
    "data",
    "dtypes",
    "map_program",
    "program",
    "row_reduce",
    "strides_of",
    "var",
]
