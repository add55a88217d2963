"""`torch._foreach_*`: one function over lists of tensors, as third-party optimizers call them.

In: a list, and per name a second list, one tensor or number, or a list of numbers. Out: a list, or (trailing
underscore) the first list changed in place.
"""

from collections.abc import Callable

from ..ops.reduce import norm as _norm
from ..tensor import Tensor
from . import elementwise

_UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac log log10 log1p log2 neg reciprocal round rsqrt "
    "sigmoid sign sin sinh sqrt tan tanh trunc"
).split()
_BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "clamp_max", "clamp_min", "pow")


def _spread(other, count):
    """The second operand once per tensor."""
    if isinstance(other, (list, tuple)):
        if len(other) != count:
            raise RuntimeError(f"Tensor lists must have the same number of tensors, got {count} and {len(other)}")
        return other
    return [other] * count


def _one_unary(name):
    function = getattr(elementwise, name)

    def plain(self):
        return [function(x) for x in self]

    def inplace(self):
        for x in self:
            getattr(x, name + "_")()

    return plain, inplace


def _extreme(name: str) -> str:
    return {"clamp_max": "minimum", "clamp_min": "maximum"}.get(name, name)


def _one_binary(name):
    function = getattr(elementwise, _extreme(name))

    def value(x, y, options):
        if _extreme(name) in ("maximum", "minimum") and not isinstance(y, Tensor):
            y = x.new_tensor(y)
        return function(x, y, **options)

    def plain(self, other=None, *, alpha=1, scalar=None, scalars=None):
        other = next(o for o in (other, scalar, scalars) if o is not None)
        options = {} if alpha == 1 else {"alpha": alpha}
        return [value(x, y, options) for x, y in zip(self, _spread(other, len(self)))]

    def inplace(self, other=None, *, alpha=1, scalar=None, scalars=None):
        other = next(o for o in (other, scalar, scalars) if o is not None)
        options = {} if alpha == 1 else {"alpha": alpha}
        for x, y in zip(self, _spread(other, len(self))):
            if _extreme(name) in ("maximum", "minimum"):
                x.copy_(value(x, y, options))
            else:
                getattr(x, name + "_")(y, **options)

    return plain, inplace


def _one_ternary(name):
    function = getattr(elementwise, name)

    def plain(self, first, second, value=1):
        values = value.tolist() if isinstance(value, Tensor) else value
        return [function(x, y, z, value=v) for x, y, z, v in zip(self, first, second, _spread(values, len(self)))]

    def inplace(self, first, second, value=1):
        values = value.tolist() if isinstance(value, Tensor) else value
        for x, y, z, v in zip(self, first, second, _spread(values, len(self))):
            getattr(x, name + "_")(y, z, value=v)

    def plain_scalars(self, tensor1, tensor2, scalars=None, value=1):
        return plain(self, tensor1, tensor2, value if scalars is None else scalars)

    def inplace_scalars(self, tensor1, tensor2, scalars=None, value=1):
        inplace(self, tensor1, tensor2, value if scalars is None else scalars)

    return plain_scalars, inplace_scalars


def _foreach_lerp(self, tensors1, weight):
    return [x.lerp(y, w) for x, y, w in zip(self, tensors1, _spread(weight, len(self)))]


def _foreach_lerp_(self, tensors1, weight):
    for x, y, w in zip(self, tensors1, _spread(weight, len(self))):
        x.lerp_(y, w)


def _foreach_copy_(self, src, non_blocking=False):
    for x, y in zip(self, _spread(src, len(self))):
        x.copy_(y)


def _foreach_zero_(self):
    for x in self:
        x.zero_()


def _foreach_norm(self, ord=2, dtype=None):
    found = [x if dtype is None else x.to(dtype) for x in self]
    return [_norm(x, float(ord), tuple(range(x.ndim)), False) for x in found]


def _foreach_max(self):
    return [x.max() for x in self]


FUNCTIONS: dict[str, Callable] = {
    f.__name__: f for f in (_foreach_lerp, _foreach_lerp_, _foreach_copy_, _foreach_zero_, _foreach_norm, _foreach_max)
}
for _names, _make in ((_UNARY, _one_unary), (_BINARY, _one_binary), (("addcmul", "addcdiv"), _one_ternary)):
    for _name in _names:
        FUNCTIONS[f"_foreach_{_name}"], FUNCTIONS[f"_foreach_{_name}_"] = _make(_name)
for _name, _function in FUNCTIONS.items():
    _function.__name__ = _function.__qualname__ = _name
