"""Sequences of different lengths: padded to one tensor, or packed step by step.

A PackedSequence holds step 0 of all sequences, then step 1 of those that have one, and so on, longest sequence first;
`batch_sizes[t]` sequences have step t. `sorted_indices` is the order in which they were sorted, `unsorted_indices`
the way back (None: they came sorted).
"""

from collections import namedtuple
from collections.abc import Iterable

from ... import api
from ...tensor import Tensor

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpad_sequence",
    "pack_sequence",
    "unpack_sequence",
]

_Fields = namedtuple("PackedSequence", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])


class PackedSequence(_Fields):
    """Made by `pack_padded_sequence` and `pack_sequence`; recurrent modules take and return it."""

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if batch_sizes is None:
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created "
                "manually. They should be instantiated by functions like pack_sequence and "
                "pack_padded_sequence in nn.utils.rnn."
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args, **kwargs):
        """The data converted as by Tensor.to; the indices only move to the data's device."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        order, back = (None if i is None else i.to(data.device) for i in (self.sorted_indices, self.unsorted_indices))
        return type(self)(data, self.batch_sizes, order, back)

    def pin_memory(self):
        parts = (None if t is None else t.pin_memory() for t in (self.data, *self[2:]))
        data, order, back = parts
        return type(self)(data, self.batch_sizes, order, back)

    def cpu(self, *args, **kwargs):
        return self.to("cpu", *args, **kwargs)

    def cuda(self, *args, **kwargs):
        return self.to("cuda", *args, **kwargs)

    def double(self):
        return self.to(api.float64)

    def float(self):
        return self.to(api.float32)

    def half(self):
        return self.to(api.float16)

    def long(self):
        return self.to(api.int64)

    def int(self):
        return self.to(api.int32)

    def short(self):
        return self.to(api.int16)

    def char(self):
        return self.to(api.int8)

    def byte(self):
        return self.to(api.uint8)

    @property
    def is_cuda(self):
        return self.data.device.type == "cuda"

    def is_pinned(self):
        return self.data.is_pinned()


def invert_permutation(permutation):
    """`inverse[permutation[k]] = k`; None stays None."""
    if permutation is None:
        return None
    places = api.arange(permutation.numel(), device=permutation.device)
    return api.empty_like(permutation).scatter_(0, permutation, places)


# -- packing


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """`input` (T, N, ...), or (N, T, ...) with batch_first; `lengths` N ints, on the CPU.

    With `enforce_sorted` the lengths must not increase; else the sequences are sorted here.
    """
    if not isinstance(lengths, Tensor):
        lengths = api.tensor(list(lengths), dtype=api.int64)
    if lengths.dim() != 1 or lengths.device.type != "cpu":
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.dim()}D {lengths.device.type} tensor"
        )
    lengths, order = lengths.long(), None
    if not enforce_sorted:
        lengths, order = api.sort(lengths, descending=True)
        order = order.to(input.device)
        input = input.index_select(0 if batch_first else 1, order)
    steps = input.transpose(0, 1) if batch_first else input
    sizes = _batch_sizes(lengths.tolist(), steps)
    data = api.cat([steps[t, :n] for t, n in enumerate(sizes)])
    return PackedSequence(data, api.tensor(sizes, dtype=api.int64), order, None)


def _batch_sizes(lengths, steps):
    if steps.dim() < 2:
        raise IndexError(f"Dimension out of range (expected to be in range of [-{steps.dim()}, {steps.dim() - 1}], but got 1)")
    if steps.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    if len(lengths) != steps.shape[1]:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} (batch_size={steps.shape[1]})"
        )
    if min(lengths) <= 0:
        raise RuntimeError("Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0")
    if any(a < b for a, b in zip(lengths, lengths[1:])):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can "
            "pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this "
            "requirement if you do not need ONNX exportability."
        )
    if lengths[0] > steps.shape[0]:
        raise RuntimeError(f"Expected lengths of at most {steps.shape[0]} steps, but got {lengths[0]}")
    return [sum(n > t for n in lengths) for t in range(lengths[0])]


def _lengths(batch_sizes):
    """How many steps each sequence has, longest first."""
    counts = batch_sizes + [0]
    ends = [[t + 1] * (n - m) for t, (n, m) in enumerate(zip(counts, counts[1:]))]
    return [n for some in reversed(ends) for n in some]


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """-> (the padded tensor, the lengths), in the order before packing."""
    data, batch_sizes, _, back = sequence
    sizes = batch_sizes.tolist()
    longest = len(sizes)
    if total_length is not None and total_length < longest:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={total_length} and max sequence length being {longest}"
        )
    lengths = api.tensor(_lengths(sizes), dtype=api.int64)
    batch, rest = sizes[0], tuple(data.shape[1:])
    steps = []
    for part in data.split(sizes):
        missing = batch - part.shape[0]
        steps.append(part if not missing else api.cat([part, data.new_full((missing, *rest), padding_value)]))
    steps += [data.new_full((batch, *rest), padding_value)] * ((total_length or longest) - longest)
    padded = api.stack(steps, 1 if batch_first else 0)
    if back is not None:
        padded, lengths = padded.index_select(0 if batch_first else 1, back), lengths[back.cpu()]
    return padded, lengths


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Tensors (L_k, *) -> (longest, N, *), or (N, longest, *) with batch_first."""
    if not isinstance(sequences, Iterable):
        raise RuntimeError(f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}")
    sequences = tuple(sequences)
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    longest = max(s.size(0) for s in sequences)
    rows = []
    for s in sequences:
        fill = s.new_full((longest - s.size(0), *sequences[0].shape[1:]), padding_value)
        rows.append(s if not fill.shape[0] else api.cat([s, fill] if padding_side == "right" else [fill, s]))
    return api.stack(rows, 0 if batch_first else 1)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The list of sequences without their padding: the way back from pad_sequence."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[: int(n)] for row, n in zip(rows, lengths)]


def pack_sequence(sequences, enforce_sorted=True):
    """Packs a list of tensors (L_k, *)."""
    lengths = api.tensor([s.size(0) for s in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """The list of tensors again: the way back from pack_sequence."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
