"""F.pad: constant, reflected, replicated or circular padding of the last dims."""

from ..dispatch import small
from ..ops import padding as edges, rearrange
from ..sizes import is_int
from .arguments import fitting, size_of

_COMBINATIONS = """
Supported combinations for non-constant padding:
  - 2D or 3D input: padding size = 2 (pads last dimension)
  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)
  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"""


def pad(input, pad, mode="constant", value=None):
    """`pad`: (before, after) of the last dim, then of the one before, ...; negative amounts cut off."""
    if is_int(pad):
        raise TypeError("pad(): argument 'pad' (position 2) must be tuple of ints, not int")
    pad = tuple(map(_amount, pad))
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) // 2 > input.ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(pad)} and input of dimension {input.ndim}"
        )
    pairs = tuple(pad[k : k + 2] for k in range(0, len(pad), 2))[::-1]
    full = ((0, 0),) * (input.ndim - len(pairs)) + pairs
    if mode == "constant":
        _check_sizes(input, full)
        return rearrange.pad(input, full, 0 if value is None else fitting(value, input.dtype))
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    _check_edges(input, len(pad), full, mode)
    if mode == "circular" and any(n < 0 for pair in full for n in pair):  # what is left wraps around
        input = rearrange.pad(input, tuple((min(a, 0), min(b, 0)) for a, b in full), 0)
        full = tuple((max(a, 0), max(b, 0)) for a, b in full)
    return edges.pad_edges(input, full, mode)


def _amount(n):
    if isinstance(n, float):
        raise TypeError("pad(): argument 'pad' (position 2) must be tuple of ints, but found element of type float")
    return size_of(n)


def _check_sizes(input, full):
    for d, (n, (before, after)) in enumerate(zip(input.shape, full)):
        if n + before + after < 0:
            raise RuntimeError(
                f"The input size {n}, plus negative padding {before} and {after} resulted in a negative "
                f"output size at dimension {d}"
            )


def _check_edges(input, length, full, mode):
    if length not in (2, 4, 6) or input.ndim not in (length // 2 + 1, length // 2 + 2):
        raise NotImplementedError(f"Padding size {length} is not supported for {input.ndim}D input tensor.{_COMBINATIONS}")
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    for d, (n, (before, after)) in enumerate(zip(input.shape, full)):
        if type(before) is int and type(after) is int and before == 0 and after == 0:
            continue
        if n == 0:
            raise RuntimeError(
                "Expected a tensor with possibly 0 batch size and other non-zero dimensions for input, "
                f"but got: {list(input.shape)}"
            )
        if mode == "reflect" and (before >= n or after >= n):
            raise RuntimeError(
                "Argument #4: Padding size should be less than the corresponding input dimension, but "
                f"got: padding ({before}, {after}) at dimension {d} of input {list(input.shape)}"
            )
        if mode == "circular" and (before > n or after > n):
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if n + before + after < 1:
            raise RuntimeError(f"input (W: {n}) is too small. Calculated output W: {n + before + after}")


pad = small("pad", pad)
