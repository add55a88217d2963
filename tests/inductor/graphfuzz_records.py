"""The op records as the drawer of programs sees them: families, and arguments from their samples.

In: the records. Out: names by how their arguments are drawn, and per record its samples with a `Slot` for each tensor:
how it was made, so that a value of the program can take its place.
"""

import dataclasses
import functools

from flambeau.eager import dtypes
from flambeau.eager.op.op import Kind, OPS
from flambeau.eager.op_samples import Samples
from flambeau.eager.tensor import Tensor

from ..test_ops_compiled import MORE
from .graphfuzz import RECORDS

LEFT_OUT = {
    "empty",
    "as_strided",
    "restrided",
    "gamma_draw",
    "gamma_slope",
    "randperm",
    "multinomial",
    "complex",
    "sgn",
    "conj",
    "angle",
    "eig",
    "fft_c2c",
    "fft_c2r",
    "fft_r2c",
    "real",
    "imag",
    "view_as_real",
    "view_as_complex",
    "full",
    "detach",
}


@dataclasses.dataclass(frozen=True)
class Slot:
    """A tensor of a sample: how it was made."""

    kind: str
    sizes: tuple
    dtype: str
    high: int = 0
    array: object = None


class Noting(Samples):
    """Remembers how the samples' tensors are made."""

    def __init__(self):
        super().__init__(3)
        self.slots = {}

    def note(self, tensor, kind, high=0):
        self.slots[id(tensor)] = tensor, Slot(kind, tuple(tensor.shape), tensor.dtype.name, high)
        return tensor

    def __call__(self, *shape, dtype=None):
        return self.note(super().__call__(*shape, dtype=dtype), "normal")

    def positive(self, *shape):
        return self.note(super().positive(*shape), "positive")

    def uniform(self, *shape):
        return self.note(super().uniform(*shape), "uniform")

    def probabilities(self, *shape):
        return self.note(super().probabilities(*shape), "probabilities")

    def ints(self, high, *shape):
        return self.note(super().ints(high, *shape), "ints", high)

    def bools(self, *shape):
        return self.note(super().bools(*shape), "bools")

    def slot(self, tensor):
        if id(tensor) in self.slots:
            return self.slots[id(tensor)][1]
        return Slot("given", tuple(tensor.shape), tensor.dtype.name, array=tensor.detach()._fl_array.copy())


@functools.cache
def templates(name):
    """The samples of a record: tuples of slots and constants."""
    make, op = Noting(), OPS[name]
    found = [*MORE.get(name, lambda make: [])(make), *(op.sample_rule(make) if op.sample_rule else [])]
    rows = [op.bind(tuple(args), {}) for args in found]
    return [row for row in (tuple(slotted(make, a) for a in row) for row in rows) if plain(row)]


def slotted(make, value):
    if isinstance(value, Tensor):
        return make.slot(value)
    return tuple(slotted(make, v) for v in value) if type(value) in (tuple, list) else value


def plain(value):
    """Only constants that can be printed, no complex tensors."""
    if isinstance(value, Slot):
        return not value.dtype.startswith("complex")
    if isinstance(value, tuple):
        return all(map(plain, value))
    return value is None or isinstance(value, (int, float, str, dtypes.dtype))


def own(op):
    """Whether it is the project's: examples and tests define records, too, which must not change what is drawn."""
    return op.sample_rule is None or op.sample_rule.__module__.startswith("flambeau.eager.")


@functools.cache
def families():
    """Records by how their arguments are drawn."""
    found = {"maps": [], "reductions": [], "rows": [], "samples": [], "externs": []}
    for name, op in sorted(OPS.items()):
        if name in LEFT_OUT or not own(op) or op.mutates or name.endswith(("_put", "_pure")) or not templates(name):
            continue
        dims = [p.name for p in op.params if p.name in ("dim", "dims")]
        if op.kind is Kind.MAP and not op.explicit_loop and op.meta_rule is None:
            found["maps"].append(name)
        elif op.kind is Kind.REDUCE and dims and op.params[-1].name == "keepdim":
            found["reductions"].append(name)
        elif op.kind in (Kind.COMPOSITE, Kind.SCAN) and [p.name for p in op.params][:2] == ["x", "dim"]:
            found["rows"].append(name)
        elif op.kind is Kind.EXTERN:
            found["externs"].append(name)
        elif op.kind is not Kind.VIEW:
            found["samples"].append(name)
    return found


def unchecked(text):
    """Whether a line calls a record of several tensors, or sizes, that its public spelling compares, not the record."""
    names = RECORDS.findall(text)
    samples = {*families()["samples"], *families()["externs"]}
    sized = lambda op: sum(code > 0 for code in op.codes) > 1 or any(p.role == "size" for p in op.params)
    return any(name in samples and sized(OPS[name]) for name in names)
