"""Functions of images and channels that are also public at the top of the library; some with arguments in the order
that they have there."""

from collections.abc import Callable

from . import channel_norm as channels, distance, dropout, image_ops, pooling, public

_SAME = {
    pooling: "avg_pool1d adaptive_avg_pool1d adaptive_max_pool1d max_pool1d max_pool2d max_pool3d",
    image_ops: "pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle",
    distance: "pairwise_distance cdist pdist bilinear",
}


def batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled=False):
    return channels.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled=False):
    return channels.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    return channels.group_norm(input, num_groups, weight, bias, eps)


def alpha_dropout(input, p, train):
    return dropout.alpha_dropout(input, p, train)


def feature_dropout(input, p, train):
    return dropout.dropout2d(input, p, train)


def feature_alpha_dropout(input, p, train):
    return dropout.feature_alpha_dropout(input, p, train)


def _with_indices(n):
    def function(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
        return getattr(pooling, f"max_pool{n}d")(input, kernel_size, stride, padding, dilation, ceil_mode, True)

    function.__name__ = function.__qualname__ = f"max_pool{n}d_with_indices"
    return function


FUNCTIONS: dict[str, Callable] = {
    f.__name__: f for f in (batch_norm, instance_norm, group_norm, alpha_dropout, feature_dropout, feature_alpha_dropout)
}
for _module, _names in _SAME.items():
    FUNCTIONS.update({name: getattr(_module, name) for name in _names.split()})
FUNCTIONS["max_pool1d_with_indices"] = _with_indices(1)
public.each(FUNCTIONS, function=" ".join(FUNCTIONS))
