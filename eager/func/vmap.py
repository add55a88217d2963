"""`vmap`: a function of single examples as a function of a batch.

The function runs once per example and the results are stacked: the values are those of a batched run, at the speed of
a loop.
"""

from __future__ import annotations

import functools

from .. import random
from ..op.op import OPS
from ..state import keep_graphs
from ..tensor import Tensor
from .trees import broadcast, leaves, rebuild


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """`func` over the dimension `in_dims` of each tensor (None: the whole tensor each time); results are stacked along
    `out_dims`. `randomness`: "error" refuses random draws, "different" draws anew for each example, "same" repeats.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def run(*args, **kwargs):
        given = leaves(args)
        dims = checked_dims(given, broadcast_in(in_dims, args, func))
        size = batch_size(given, dims)
        one = Examples(func, args, kwargs, given, dims, randomness)
        return stacked([one(k, size) for k in range(size)], out_dims, func)

    return run


def broadcast_in(in_dims, args, func) -> list:
    if not isinstance(in_dims, (int, tuple, list)):
        raise ValueError(
            f"vmap({name_of(func)}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a "
            f"(potentially nested) tuple matching the structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name_of(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are "
            "trying to vmap over a function with no inputs. The latter is unsupported."
        )
    return broadcast(in_dims, args, "in_dims")


def checked_dims(given, dims) -> list:
    found = []
    for x, d in zip(given, dims):
        if d is None:
            found.append(None)
        elif not isinstance(x, Tensor):
            if len(given) and isinstance(d, int) and not isinstance(x, Tensor):
                raise ValueError(
                    f"vmap: Got in_dim={d} for an input but the input is of type {type(x)}. We cannot vmap over "
                    "non-Tensor arguments, please use None as the respective in_dim"
                )
        elif not -x.dim() <= d < x.dim():
            raise ValueError(
                f"vmap: Got in_dim={d} for some input, but that input is a Tensor of dimensionality {x.dim()} "
                f"so expected in_dim to satisfy -{x.dim()} <= in_dim < {x.dim()}."
            )
        else:
            found.append(d % x.dim())
    return found


def batch_size(given, dims) -> int:
    sizes = [x._fl_sizes[d] for x, d in zip(given, dims) if d is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to be vmapped over")
    if any(n != sizes[0] for n in sizes):
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for "
            "the mapped dimension"
        )
    return sizes[0]


class Examples:
    """Calls the function on the k-th example of so many. Graphs that it differentiates are kept until the last one: a batched run
    goes through them once."""

    def __init__(self, func, args, kwargs, given, dims, randomness):
        self.func, self.args, self.kwargs, self.given, self.dims = func, args, kwargs, given, dims
        self.randomness, self.start = randomness, draws_now()

    def __call__(self, k: int, size: int):
        parts = [x if d is None else example(x, d, k) for x, d in zip(self.given, self.dims)]
        if self.randomness == "same":
            draw_again(self.start)
        before = keep_graphs(True)
        try:
            keep_graphs(before or k < size - 1)
            out = self.func(*rebuild(self.args, iter(parts)), **self.kwargs)
        finally:
            keep_graphs(before)
        if self.randomness == "error" and has_drawn(self.start):
            raise RuntimeError(
                "vmap: called random operation while in randomness error mode. Please either use the 'same' "
                "or 'different' randomness flags on vmap or perform the randomness operation out of vmap"
            )
        return out


def example(x, dim: int, k: int):
    return OPS["select"](x, dim, k)


def draws_now():
    return random.get_rng_state()


def has_drawn(since) -> bool:
    return random.get_rng_state().tolist() != since.tolist()


def draw_again(since) -> None:
    random.set_rng_state(since)


def joined(parts, dim: int):
    return OPS["stack"](tuple(parts), dim % (parts[0].dim() + 1))


def stacked(results, out_dims, func):
    if not results:
        raise RuntimeError(f"vmap({name_of(func)}): a batch of size 0 has no results to tell shapes from")
    first = results[0]
    for x in leaves(first):
        if not isinstance(x, Tensor):
            raise ValueError(
                f"vmap({name_of(func)}, ...): `{name_of(func)}` must only return Tensors, got type {type(x)} as a return."
            )
    columns = list(zip(*[leaves(r) for r in results]))
    dims = broadcast(out_dims, first, "out_dims")
    return rebuild(first, iter([joined(c, d) for c, d in zip(columns, dims)]))


def name_of(func) -> str:
    return getattr(func, "__name__", repr(func))
