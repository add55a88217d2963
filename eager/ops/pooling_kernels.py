"""Native kernels of pooling; `NotImplemented` where numpy takes over."""


def max_windows(x, sizes, window, with_place):
    return NotImplemented


def max_windows_backward(g, place, sizes, window):
    return NotImplemented


def sum_windows(x, sizes, window, divisor, count_include_pad):
    return NotImplemented


def sum_windows_backward(g, sizes, window, divisor, count_include_pad):
    return NotImplemented
