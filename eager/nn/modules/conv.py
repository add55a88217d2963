"""Convolutions and their transposed forms as modules: weights (O, C/groups, *kernel), transposed (C, O/groups, *kernel).

In: (N, C, *sizes) or (C, *sizes). Out: the same with other channels and sizes. `padding_mode` other than zeros pads the
input first. The lazy forms learn the number of input channels from the first input.
"""

from typing import TYPE_CHECKING

from .. import functional as F
from ..parameter import UninitializedParameter
from .affine import register_map, start_uniform
from .lazy import LazyModuleMixin
from .module import Module
from .utils import _ntuple, _pair, _reverse_repeat_tuple, _single, _triple

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")
_TUPLE = {1: _single, 2: _pair, 3: _triple}


def _check(in_channels, out_channels, stride, padding, groups, padding_mode):
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if in_channels % groups != 0:
        raise ValueError("in_channels must be divisible by groups")
    if out_channels % groups != 0:
        raise ValueError("out_channels must be divisible by groups")
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(f"Invalid padding string {padding!r}, should be one of 'valid', 'same'")
        if padding == "same" and any(s != 1 for s in stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
    if padding_mode not in _PADDING_MODES:
        raise ValueError(f"padding_mode must be one of {_PADDING_MODES}, but got padding_mode={padding_mode!r}")


def _around(padding, kernel_size, dilation):
    """(before, after) per dim, the last dim first, as F.pad takes them."""
    if padding == "valid":
        return [0, 0] * len(kernel_size)
    if padding != "same":
        return _reverse_repeat_tuple(padding, 2)
    amounts = []
    for d, k in zip(reversed(dilation), reversed(kernel_size)):
        total = d * (k - 1)
        amounts += [total // 2, total - total // 2]
    return amounts


class _ConvNd(Module):
    __constants__ = [
        "stride",
        "padding",
        "dilation",
        "groups",
        "padding_mode",
        "output_padding",
        "in_channels",
        "out_channels",
        "kernel_size",
    ]
    __annotations__ = {"bias": "Tensor | None"}

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        bias,
        padding_mode,
        device=None,
        dtype=None,
    ):
        super().__init__()
        _check(in_channels, out_channels, stride, padding, groups, padding_mode)
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, kernel_size
        self.stride, self.padding, self.dilation = stride, padding, dilation
        self.transposed, self.output_padding, self.groups = transposed, output_padding, groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = _around(padding, kernel_size, dilation)
        outer = (in_channels, out_channels // groups) if transposed else (out_channels, in_channels // groups)
        register_map(self, (*outer, *kernel_size), out_channels, bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self):
        start_uniform(self)

    def extra_repr(self):
        zeros, ones = (0,) * len(self.padding), (1,) * len(self.dilation)
        shown = [f"{self.in_channels}", f"{self.out_channels}", f"kernel_size={self.kernel_size}", f"stride={self.stride}"]
        for name, default in (
            ("padding", zeros),
            ("dilation", ones),
            ("output_padding", (0,) * len(self.output_padding)),
            ("groups", 1),
        ):
            if getattr(self, name) != default:
                shown.append(f"{name}={getattr(self, name)}")
        if self.bias is None:
            shown.append("bias=False")
        if self.padding_mode != "zeros":
            shown.append(f"padding_mode={self.padding_mode}")
        return ", ".join(shown)

    def __setstate__(self, state):
        super().__setstate__(state)
        if not hasattr(self, "padding_mode"):
            self.padding_mode = "zeros"


class _Conv(_ConvNd):
    """What Conv1d, Conv2d and Conv3d share; `_fl_dims` is the number of spatial dims."""

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride=1,
        padding=0,
        dilation=1,
        groups=1,
        bias=True,
        padding_mode="zeros",
        device=None,
        dtype=None,
    ):
        own = _TUPLE[self._fl_dims]
        super().__init__(
            in_channels,
            out_channels,
            own(kernel_size),
            own(stride),
            padding if isinstance(padding, str) else own(padding),
            own(dilation),
            False,
            own(0),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input, weight, bias):
        function, padding = self._fl_function, self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = (0,) * self._fl_dims
        return function(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input):
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """Convolution over (N, C, L) or (C, L)."""

    _fl_dims, _fl_function = 1, staticmethod(F.conv1d)


class Conv2d(_Conv):
    """Convolution over (N, C, H, W) or (C, H, W)."""

    _fl_dims, _fl_function = 2, staticmethod(F.conv2d)


class Conv3d(_Conv):
    """Convolution over (N, C, D, H, W) or (C, D, H, W)."""

    _fl_dims, _fl_function = 3, staticmethod(F.conv3d)


# -- transposed


class _ConvTransposeNd(_ConvNd):
    """What the transposed forms share."""

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride=1,
        padding=0,
        output_padding=0,
        groups=1,
        bias=True,
        dilation=1,
        padding_mode="zeros",
        device=None,
        dtype=None,
    ):
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        own = _TUPLE[self._fl_dims]
        super().__init__(
            in_channels,
            out_channels,
            own(kernel_size),
            own(stride),
            own(padding),
            own(dilation),
            True,
            own(output_padding),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(self, input, output_size, stride, padding, kernel_size, num_spatial_dims, dilation=None):
        """The output padding that gives `output_size` (spatial, or of all dims)."""
        if output_size is None:
            return _ntuple(num_spatial_dims, "own")(self.output_padding)
        outer = input.dim() - num_spatial_dims
        if len(output_size) == input.dim():
            output_size = output_size[outer:]
        if len(output_size) != num_spatial_dims:
            raise ValueError(
                f"ConvTranspose{num_spatial_dims}D: for {input.dim()}D input, output_size must have "
                f"{num_spatial_dims} or {input.dim()} elements (got {len(output_size)})"
            )
        dilation = (1,) * num_spatial_dims if dilation is None else dilation
        least = [
            (input.size(d + outer) - 1) * stride[d] - 2 * padding[d] + dilation[d] * (kernel_size[d] - 1) + 1
            for d in range(num_spatial_dims)
        ]
        most = [m + s - 1 for m, s in zip(least, stride)]
        if any(n < low or n > high for n, low, high in zip(output_size, least, most)):
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range from {least} to {most} "
                f"(for an input of {input.size()[outer:]})"
            )
        return tuple([n - low for n, low in zip(output_size, least)])

    def forward(self, input, output_size=None):
        extra = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, self._fl_dims, self.dilation
        )
        return self._fl_function(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)


class ConvTranspose1d(_ConvTransposeNd):
    """Transposed convolution over (N, C, L) or (C, L)."""

    _fl_dims, _fl_function = 1, staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTransposeNd):
    """Transposed convolution over (N, C, H, W) or (C, H, W)."""

    _fl_dims, _fl_function = 2, staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed convolution over (N, C, D, H, W) or (C, D, H, W)."""

    _fl_dims, _fl_function = 3, staticmethod(F.conv_transpose3d)


# -- lazy


if TYPE_CHECKING:
    _Convolution = _ConvNd  # that the mixin stands before
else:
    _Convolution = object


class _LazyConvXdMixin(LazyModuleMixin, _Convolution):
    """A convolution that takes its number of input channels from the first input."""

    def _fl_open(self, out_channels, bias, device, dtype):
        """What the constructor leaves: no sizes for weight and bias."""
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self):
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input, *args, **kwargs):
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        outer = (
            (self.in_channels, self.out_channels // self.groups)
            if self.transposed
            else (self.out_channels, self.in_channels // self.groups)
        )
        self.weight.materialize((*outer, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _get_in_channels(self, input):
        n = self._get_num_spatial_dims()
        if input.dim() not in (n + 1, n + 2):
            raise RuntimeError(
                f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {type(self).__name__}, but "
                f"got input of size: {input.shape}"
            )
        return input.shape[1] if input.dim() == n + 2 else input.shape[0]

    def _get_num_spatial_dims(self):
        return self._fl_dims


class _LazyConv(_LazyConvXdMixin):
    def __init__(
        self,
        out_channels,
        kernel_size,
        stride=1,
        padding=0,
        dilation=1,
        groups=1,
        bias=True,
        padding_mode="zeros",
        device=None,
        dtype=None,
    ):
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype)
        self._fl_open(out_channels, bias, device, dtype)


class _LazyConvTranspose(_LazyConvXdMixin):
    def __init__(
        self,
        out_channels,
        kernel_size,
        stride=1,
        padding=0,
        output_padding=0,
        groups=1,
        bias=True,
        dilation=1,
        padding_mode="zeros",
        device=None,
        dtype=None,
    ):
        super().__init__(0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode, device, dtype)
        self._fl_open(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConv, Conv1d):
    """Conv1d with the number of input channels taken from the first input."""

    cls_to_become = Conv1d


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """ConvTranspose1d with the number of input channels taken from the first input."""

    cls_to_become = ConvTranspose1d


class LazyConv2d(_LazyConv, Conv2d):
    """Conv2d with the number of input channels taken from the first input."""

    cls_to_become = Conv2d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """ConvTranspose2d with the number of input channels taken from the first input."""

    cls_to_become = ConvTranspose2d


class LazyConv3d(_LazyConv, Conv3d):
    """Conv3d with the number of input channels taken from the first input."""

    cls_to_become = Conv3d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """ConvTranspose3d with the number of input channels taken from the first input."""

    cls_to_become = ConvTranspose3d
