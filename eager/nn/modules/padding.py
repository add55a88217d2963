"""Padding modules: a number pads all sides of the last dims, a tuple gives (before, after) from the last dim on."""

from .. import functional as F
from .module import Module
from .utils import _check_rank, _ntuple, _pair, _quadruple

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]

_sextuple = _ntuple(6, "_sextuple")


class _PadNd(Module):
    __constants__ = ["padding"]
    _fl_sides = staticmethod(_pair)
    _fl_mode = "constant"

    def __init__(self, padding):
        super().__init__()
        self.padding = self._fl_sides(padding)

    def forward(self, input):
        return F.pad(input, self.padding, self._fl_mode)

    def extra_repr(self):
        return f"{self.padding}"


class _ConstantPadNd(_PadNd):
    __constants__ = ["padding", "value"]

    def __init__(self, padding, value):
        super().__init__(padding)
        self.value = value

    def forward(self, input):
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    pass


class ConstantPad2d(_ConstantPadNd):
    _fl_sides = staticmethod(_quadruple)


class ConstantPad3d(_ConstantPadNd):
    _fl_sides = staticmethod(_sextuple)


class _Zero(_ConstantPadNd):
    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f"{self.padding}"


class ZeroPad1d(_Zero, ConstantPad1d):
    pass


class ZeroPad2d(_Zero, ConstantPad2d):
    pass


class ZeroPad3d(_Zero, ConstantPad3d):
    pass


class _ReflectionPadNd(_PadNd):
    _fl_mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    pass


class ReflectionPad2d(_ReflectionPadNd):
    _fl_sides = staticmethod(_quadruple)


class ReflectionPad3d(_ReflectionPadNd):
    _fl_sides = staticmethod(_sextuple)


class _ReplicationPadNd(_PadNd):
    _fl_mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    pass


class ReplicationPad2d(_ReplicationPadNd):
    _fl_sides = staticmethod(_quadruple)


class ReplicationPad3d(_ReplicationPadNd):
    _fl_sides = staticmethod(_sextuple)


class _CircularPadNd(_PadNd):
    _fl_mode = "circular"

    def _check_input_dim(self, input):
        raise NotImplementedError(f"{type(self).__name__} does not say which inputs it takes")

    def forward(self, input):
        self._check_input_dim(input)
        return super().forward(input)


class CircularPad1d(_CircularPadNd):
    def _check_input_dim(self, input):
        _check_rank(input, 2, 3)


class CircularPad2d(_CircularPadNd):
    _fl_sides = staticmethod(_quadruple)

    def _check_input_dim(self, input):
        _check_rank(input, 3, 4)


class CircularPad3d(_CircularPadNd):
    _fl_sides = staticmethod(_sextuple)

    def _check_input_dim(self, input):
        _check_rank(input, 4, 5)
