"""Records without their native kernels, to compare what they give with what their formulas give."""

import contextlib

from flambeau.eager.dispatch import general


@contextlib.contextmanager
def without_kernels(records, *kinds):
    """Inside, these records have no kernels of these kinds (none at all where no kind is given)."""
    kept = {op: (dict(op.kernels), op.entry) for op in records}
    try:
        for op in records:
            for kind in kinds or tuple(op.kernels):
                op.kernels.pop(kind)
            object.__setattr__(op, "entry", general(op))
        yield
    finally:
        for op, (kernels, entry) in kept.items():
            op.kernels.update(kernels)
            object.__setattr__(op, "entry", entry)
