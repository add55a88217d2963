"""Every record's samples on "cuda" (the stand-in) and on the host: outputs, in-place results and gradients are equal.

In: names of records (none: all). Out: one line of JSON: {"failed": {name: why}, "hosted": [records without a kernel], "checked": calls}.
"""

import json
import sys
import traceback

import fake_cupy

fake_cupy.install()

import numpy as np  # noqa: E402

import flambeau  # noqa: E402
from flambeau.eager import dtypes, random as random_state  # noqa: E402
from flambeau.eager.device import device  # noqa: E402
from flambeau.eager.op.op import OPS, Kind  # noqa: E402
from flambeau.eager.op_samples import Samples  # noqa: E402
from flambeau.eager.tensor import Tensor  # noqa: E402

GPU = flambeau.device("cuda", 0)
HOST = device("cpu")
NAMES = sorted(name for name, op in OPS.items() if op.sample_rule is not None)


def mapped(args, fn):
    return tuple(
        fn(a)
        if isinstance(a, (Tensor, device))
        else type(a)(map(fn, a))
        if type(a) in (tuple, list) and a and isinstance(a[0], Tensor)
        else a
        for a in args
    )


def there(a):
    if isinstance(a, device):
        return GPU
    strides = tuple(a.stride())
    moved = a.cuda()
    return (
        moved
        if tuple(moved.stride()) == strides
        else flambeau.empty_strided(tuple(a.shape), strides, dtype=a.dtype, device=GPU).copy_(moved)
    )


def flat(out):
    return list(out) if isinstance(out, (tuple, list)) else [out]


def same(a, b, what, rtol=2e-5):
    """`a` of the host, `b` of the GPU."""
    assert b.device == GPU, f"{what}: on {b.device}"
    assert a.dtype is b.dtype and tuple(a.shape) == tuple(b.shape), f"{what}: {a.dtype} {a.shape}, {b.dtype} {b.shape}"
    assert tuple(a.stride()) == tuple(b.stride()) or a.numel() < 2, f"{what}: strides {a.stride()} and {b.stride()}"
    wide = np.complex128 if a.dtype.is_complex else np.float64
    x, y = (t.detach()._values("") for t in (a, b))
    x, y = (v.astype(wide) if a.dtype.category else v for v in (x, y))
    rtol = 1e-2 if a.dtype.is_floating_point and a.dtype.itemsize < 4 else rtol
    np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol, err_msg=what)


def requiring(args):
    return mapped(args, lambda a: a.detach().requires_grad_() if isinstance(a, Tensor) and a.dtype.is_floating_point else a)


def tensors(args):
    return [x for a in args for x in (a if type(a) in (tuple, list) else (a,)) if isinstance(x, Tensor)]


def visible(op, out):
    return [t for k, t in enumerate(flat(out)) if k >= len(op.outputs) or not op.outputs[k].hidden]


def call(op, args):
    with random_state.at(5, 3):
        return op(*args)


def check(op, args) -> None:
    what = f"{op.name}{[list(a.shape) if isinstance(a, Tensor) else a for a in args]}"
    host, gpu = requiring(args), requiring(mapped(args, there))
    gpu = tuple(GPU if p.name == "device" and a is None else a for p, a in zip(op.params, gpu))
    if op.mutates:
        host, gpu = mapped(args, lambda a: a.clone() if isinstance(a, Tensor) else a), mapped(args, there)
    one, two = call(op, host), call(op, gpu)
    if op.name != "empty" and not op.name.startswith("empty"):
        rough = any(x.dtype.is_floating_point and x.dtype.itemsize < 4 for x in tensors(host))
        for k, (a, b) in enumerate(zip(flat(one), flat(two), strict=True)):
            same(a, b, f"{what} output {k}", 1e-2 if rough else 2e-5)
    for a, b in zip(tensors(host), tensors(gpu), strict=True):
        same(a, b, f"{what} operand") if op.mutates else None
    if op.grads and not op.mutates:
        gradients(op, one, two, host, gpu, what)


def gradients(op, one, two, host, gpu, what) -> None:
    roots = [(a, b) for a, b in zip(visible(op, one), visible(op, two)) if a.requires_grad]
    assert all(b.requires_grad for _, b in roots)
    if not roots or not all(a.dtype.is_floating_point or a.dtype.is_complex for a, _ in roots):
        return
    rng = np.random.default_rng(1)
    seeds = [flambeau.tensor(rng.standard_normal(tuple(a.shape))).to(a.dtype) for a, _ in roots]
    leaves = [x for x in tensors(host) if x.requires_grad], [x for x in tensors(gpu) if x.requires_grad]
    results = []
    for side, made, given in ((0, [a for a, _ in roots], seeds), (1, [b for _, b in roots], [s.cuda() for s in seeds])):
        with random_state.at(5, 3):
            results.append(flambeau.autograd.grad(made, leaves[side], given, allow_unused=True))
    for k, (a, b) in enumerate(zip(*results)):
        assert (a is None) == (b is None), what
        if a is not None:
            same(a, b, f"{what} gradient {k}", 1e-4)


FLOATS_ONLY = ("inv", "qr", "adjugate")  # PyTorch refuses halves, and so do the public functions


def halves(args):
    return mapped(args, lambda a: a.to(dtypes.bfloat16) if isinstance(a, Tensor) and a.dtype is dtypes.float32 else a)


def main(names, types=("float32",)) -> dict:
    failed, checked, runtime = {}, 0, None
    for name in names:
        op = OPS[name]
        for args in op.sample_rule(Samples()):
            args = op.bind(tuple(args), {})
            for kind in types if name not in FLOATS_ONLY else types[:1]:
                try:
                    check(op, args if kind == "float32" else halves(args))
                    checked += 1
                except Exception:
                    if kind != "float32" and refused(op, halves(args)):
                        continue
                    failed.setdefault(name, traceback.format_exc(limit=-3)[-1500:])
    runtime = flambeau.cuda.host_runs()
    return {"failed": failed, "hosted": sorted(runtime), "checked": checked}


def refused(op, args) -> bool:
    """The host refuses this type as well."""
    try:
        call(op, args)
    except Exception:
        return True
    return False


if __name__ == "__main__":
    chosen = [a for a in sys.argv[1:] if not a.startswith("--")]
    print(json.dumps(main(chosen or NAMES, ("float32", "bfloat16") if "--halves" in sys.argv else ("float32",))))
    assert Kind.MAP
