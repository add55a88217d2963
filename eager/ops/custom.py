"""What a function with a gradient of its own gives, inside of graphs.

In: the results of its forward, the tensors it was called with, what its backward reads, and the backward as a rule. Out: the
results again, new tensors whose gradient the rule computes. Recorded by the compiler where it meets `autograd.Function`.
"""

from ..op.gradient import Formula
from ..op.op import composite, size, static, tensors
from .arithmetic import clone

MOST = 8  # results of one call


def _copies(outs):
    made = tuple([clone(t) for t in outs])
    return made[0] if len(made) == 1 else made


@composite
def custom_gradient(outs: tensors, ins: tensors, saved: tensors, numbers: size, rule: static):
    """`rule(grads, saved, numbers, results)` gives a gradient, or None, for each of `ins`; None is one that did not come. Of the
    results it looks at sizes and types alone: the program may write into them."""
    return _copies(outs)


@composite
def custom_gradient_of_results(outs: tensors, ins: tensors, saved: tensors, numbers: size, rule: static):
    """The same for a rule that reads the results."""
    return _copies(outs)


class ByRule(Formula):
    """All gradients at once; as many results as the call has."""

    def __init__(self, op, reads_results: bool):
        names = op.names
        sources = [("param", names[n]) for n in ("outs", "ins", "saved", "numbers", "rule")]
        sources += [("out", k) for k in range(MOST) if reads_results]
        super().__init__(op, lambda *args: None, sources, {("param", names["outs"]), ("param", names["ins"])})

    def __call__(self, grads, args, outs, needs):
        metas, _, saved, numbers, rule = args
        results = outs if self.outs else metas
        return {"outs": list(grads), "ins": list(rule(list(grads), saved, numbers, results)) if "ins" in needs else None}


for _op, _reads in ((custom_gradient, False), (custom_gradient_of_results, True)):
    _op.grads["*"] = ByRule(_op, _reads)


def _samples(make):
    x, y = make(2, 3), make(4)
    return [((x,), (y,), (y,), (), _nothing), ((x, y), (x, y), (), (), _nothing)]


def _nothing(grads, saved, numbers, results):
    return [None, None]


custom_gradient.samples(_samples)
custom_gradient_of_results.samples(_samples)
