"""Distribution: batch and event shapes, validation of parameters and values, sampling without gradients."""

import warnings
from typing import Any

from .. import api
from ..autograd import no_grad
from ..asserts import holds
from ..class_homes import real_module
from ..sizes import Size
from ..tensor import Tensor
from . import constraints
from .utils import broadcast_all, lazy_property

__all__ = ["Distribution", "ExponentialFamily"]


class Distribution:
    """A subclass gives arg_constraints, support, `rsample` (or `sample`), `log_prob`, and moments."""

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value):
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(self, batch_shape: tuple = Size(), event_shape: tuple = Size(), validate_args=None):
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._fl_validate_parameters()
        super().__init__()

    def _fl_validate_parameters(self):
        try:
            wanted = self.arg_constraints
        except AttributeError:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or "
                "initialize the distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        for name, constraint in wanted.items():
            lazy = isinstance(getattr(type(self), name, None), lazy_property)
            if constraints.is_dependent(constraint) or (name not in self.__dict__ and lazy):
                continue
            value = getattr(self, name)
            valid = constraint.check(value)
            if not holds(valid):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of "
                    f"distribution {self!r} to satisfy the constraint {constraint!r}, but found invalid "
                    f"values:\n{value}"
                )

    def expand(self, batch_shape, _instance=None) -> Any:
        """The same distribution over a larger batch: parameters are expanded."""
        batch_shape = Size(batch_shape)
        new = self._get_checked_instance(of_library(type(self)), _instance)
        for name in self._fl_parameters():
            value = self.__dict__.get(name)
            if isinstance(value, Tensor):
                event = value.shape[len(self._batch_shape) :]
                setattr(new, name, value.expand(batch_shape + event))
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _fl_filled(self, cls, made, _instance) -> Any:
        """The object that `expand` of `cls` fills, with what a new distribution of that class has."""
        new = self._get_checked_instance(cls, _instance)
        new.__dict__.update(made.__dict__)
        new._validate_args = self._validate_args
        return new

    def _fl_parameters(self):
        return own_names(self) + ("_param",)

    def _get_checked_instance(self, cls, _instance=None) -> Any:
        """What `expand` of `cls` fills. A subclass that is made of other arguments has an `expand` of its own."""
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also define a "
                "custom .expand() method."
            )
        return type(self).__new__(type(self)) if _instance is None else _instance

    @property
    def batch_shape(self):
        return self._batch_shape

    @property
    def event_shape(self):
        return self._event_shape

    def _fl_absent(self, what) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no {what}")

    # what a subclass has a field or a property for
    arg_constraints: Any = property(lambda self: self._fl_absent("arg_constraints"))
    support: Any = property(lambda self: self._fl_absent("support"))
    mean: Any = property(lambda self: self._fl_absent("mean"))
    mode: Any = property(lambda self: self._fl_absent("mode"))
    variance: Any = property(lambda self: self._fl_absent("variance"))

    @property
    def stddev(self):
        return self.variance.sqrt()

    def sample(self, sample_shape=Size()):
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=Size()):
        return self._fl_absent("rsample")

    def sample_n(self, n):
        warnings.warn("sample_n(n) will be deprecated. Use .sample((n,)) instead.", UserWarning, stacklevel=2)
        return self.sample(Size((n,)))

    def log_prob(self, value):
        return self._fl_absent("log_prob")

    def cdf(self, value):
        return self._fl_absent("cdf")

    def icdf(self, value):
        return self._fl_absent("icdf")

    def enumerate_support(self, expand=True):
        return self._fl_absent("enumerate_support")

    def entropy(self):
        return self._fl_absent("entropy")

    def perplexity(self):
        return api.exp(self.entropy())

    def _extended_shape(self, sample_shape=Size()):
        return Size(sample_shape) + self._batch_shape + self._event_shape

    def _fl_validate(self, value):
        """Refuses a value outside of the support, where arguments are validated."""
        if self._validate_args:
            self._validate_sample(value)

    def _validate_sample(self, value):
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        start = value.dim() - len(self._event_shape)
        if value.shape[start:] != self._event_shape:
            raise ValueError(f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}.")
        expected = self._batch_shape + self._event_shape
        for i, j in zip(reversed(value.shape), reversed(expected)):
            if i != 1 and j != 1 and i != j:
                raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {expected}.")
        support = self.support
        if not holds(support.check(value)):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be "
                f"within the support ({support!r}) of the distribution {self!r}, but found invalid "
                f"values:\n{value}"
            )

    def __repr__(self):
        names = [name for name in self.arg_constraints if name in self.__dict__]
        shown = ", ".join(
            f"{n}: {v if v.numel() == 1 else v.size()}" for n in names for v in [self.__dict__[n]] if isinstance(v, Tensor)
        )
        return f"{type(self).__name__}({shown})"


class ExponentialFamily(Distribution):
    """Distributions with densities exp(natural parameters * statistics - log normaliser)."""


class LocationScale(Distribution):
    """Distributions over all numbers that a variable without parameters, times `scale`, plus `loc` has."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support, has_rsample = constraints.real, True

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)


def of_library(cls: type) -> type:
    """The nearest base that is one of this package's."""
    package = __name__.rpartition(".")[0]
    return next(base for base in cls.__mro__ if real_module(base).startswith(package))


def own_names(d: Distribution) -> tuple:
    """The parameters of the library's class: a subclass tells what it is made of, which may be others."""
    found = getattr(of_library(type(d)), "arg_constraints", None)
    return tuple(found if isinstance(found, dict) else d.arg_constraints)
