"""torch.nn.grad: gradients of convolutions, asked for by name.

In: sizes of what is wanted, the other operand, and the gradient of the output. Out: the gradient, itself differentiable.
Shapes: input (N, C, *sizes), weight (O, C / groups, *kernel), grad_output (N, O, *windows).
"""

from ..ops.convolution import convolution, convolution_weight, unwindowed_sizes, window_sizes
from ..frontend.arguments import size_of
from ..frontend.convolution import _numbers
from ..tensor import Tensor


def _arguments(n, stride, padding, dilation):
    return [
        _numbers(value, n, what, f"conv{n}d")
        for what, value in (("stride", stride), ("padding", padding), ("dilation", dilation))
    ]


def _check_tensors(n, **operands):
    for name, x in operands.items():
        if not isinstance(x, Tensor):
            raise TypeError(f"gradient of conv{n}d: argument '{name}' must be Tensor, not {type(x).__name__}")


def _check_windows(n, sizes, kernel, grad_output, stride, padding, dilation):
    windows = tuple(window_sizes(sizes, kernel, stride, padding, dilation))
    if grad_output.dim() != n + 2 or tuple(grad_output.shape[2:]) != windows:
        raise RuntimeError(
            f"Expected grad_output of conv{n}d to have sizes {list(windows)} behind batch and channels, but "
            f"got shape {list(grad_output.shape)}"
        )


def _input(n, input_size, weight, grad_output, stride, padding, dilation, groups):
    _check_tensors(n, weight=weight, grad_output=grad_output)
    stride, padding, dilation = _arguments(n, stride, padding, dilation)
    sizes, kernel = tuple([size_of(d) for d in input_size])[2:], tuple(weight.shape[2:])
    _check_windows(n, sizes, kernel, grad_output, stride, padding, dilation)
    least = unwindowed_sizes(grad_output.shape[2:], kernel, stride, padding, dilation, (0,) * n)
    return convolution(
        grad_output,
        weight,
        None,
        stride,
        padding,
        dilation,
        True,
        tuple([size - small for size, small in zip(sizes, least)]),
        groups,
    )


def _weight(n, input, weight_size, grad_output, stride, padding, dilation, groups):
    _check_tensors(n, input=input, grad_output=grad_output)
    stride, padding, dilation = _arguments(n, stride, padding, dilation)
    kernel = tuple([size_of(d) for d in weight_size])[2:]
    _check_windows(n, tuple(input.shape[2:]), kernel, grad_output, stride, padding, dilation)
    return convolution_weight(input, grad_output, kernel, stride, padding, dilation, groups)


def conv1d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv1d's input."""
    return _input(1, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv1d's weight."""
    return _weight(1, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv2d's input."""
    return _input(2, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv2d's weight."""
    return _weight(2, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv3d's input."""
    return _input(3, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv3d's weight."""
    return _weight(3, input, weight_size, grad_output, stride, padding, dilation, groups)
