"""From a constraint to a transform of all real numbers onto its region: `biject_to` (one to one) and `transform_to` (any).

A `ConstraintRegistry` holds a function per class of constraints; `register` adds one.
"""

from . import constraints as c, transforms as t

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    def __init__(self):
        self._registry = {}

    def register(self, constraint, factory=None):
        """`factory(constraint)` gives the transform for constraints of this class (or of an instance's class); without it, a
        decorator."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, c.Constraint) else constraint
        if not (isinstance(kind, type) and issubclass(kind, c.Constraint)):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint):
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _above(constraint):
    return t.ComposeTransform([t.ExpTransform(), t.AffineTransform(constraint.lower_bound, 1)])


def _below(constraint):
    return t.ComposeTransform([t.ExpTransform(), t.AffineTransform(constraint.upper_bound, -1)])


def _between(constraint):
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and low == 0 and high == 1:
        return t.SigmoidTransform()
    return t.ComposeTransform([t.SigmoidTransform(), t.AffineTransform(low, high - low)])


for _registry in (biject_to, transform_to):
    _registry.register(c.real, lambda constraint: t.identity_transform)
    _registry.register(
        c.independent,
        lambda constraint, own=_registry: t.IndependentTransform(
            own(constraint.base_constraint), constraint.reinterpreted_batch_ndims
        ),
    )
    for _kind, _make in (
        (c.greater_than, _above),
        (c.greater_than_eq, _above),
        (c.less_than, _below),
        (c.interval, _between),
        (c.half_open_interval, _between),
    ):
        _registry.register(_kind, _make)
    _registry.register(c.corr_cholesky, lambda constraint: t.CorrCholeskyTransform())
    _registry.register(
        c.cat,
        lambda constraint, own=_registry: t.CatTransform(
            [own(part) for part in constraint.cseq], constraint.dim, constraint.lengths
        ),
    )
    _registry.register(
        c.stack, lambda constraint, own=_registry: t.StackTransform([own(part) for part in constraint.cseq], constraint.dim)
    )
biject_to.register(c.simplex, lambda constraint: t.StickBreakingTransform())
transform_to.register(c.simplex, lambda constraint: t.SoftmaxTransform())
transform_to.register(c.lower_cholesky, lambda constraint: t.LowerCholeskyTransform())
for _constraint in (c.positive_definite, c.positive_semidefinite):
    transform_to.register(_constraint, lambda constraint: t.PositiveDefiniteTransform())
