"""Batch normalisation in evaluation folded into the layer before it: weight * gamma / sqrt(var + eps)."""

import copy

from ... import api
from ..parameter import Parameter


def _check(*modules):
    if any(module.training for module in modules):
        raise AssertionError("Fusion only for eval!")


def fuse_conv_bn_eval(conv, bn, transpose=False):
    """A copy of `conv` that does what `bn(conv(x))` did; both in evaluation mode."""
    _check(conv, bn)
    fused = copy.deepcopy(conv)
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, transpose=False):
    """(weight, bias) of the fused convolution; outputs are dim 0 of the weight, dim 1 if `transpose`."""
    conv_b = api.zeros_like(bn_rm) if conv_b is None else conv_b
    bn_w = api.ones_like(bn_rm) if bn_w is None else bn_w
    bn_b = api.zeros_like(bn_rm) if bn_b is None else bn_b
    scale = bn_w * api.rsqrt(bn_rv + bn_eps)
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    weight = (conv_w * scale.reshape(shape)).to(dtype=conv_w.dtype)
    bias = ((conv_b - bn_rm) * scale + bn_b).to(dtype=conv_b.dtype)
    return Parameter(weight, conv_w.requires_grad), Parameter(bias, conv_b.requires_grad)


def fuse_linear_bn_eval(linear, bn):
    """A copy of `linear` that does what `bn(linear(x))` did; both in evaluation mode."""
    _check(linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1")
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    linear_b = api.zeros_like(bn_rm) if linear_b is None else linear_b
    scale = bn_w * api.rsqrt(bn_rv + bn_eps)
    weight = (linear_w * scale.unsqueeze(-1)).to(dtype=linear_w.dtype)
    bias = ((linear_b - bn_rm) * scale + bn_b).to(dtype=linear_b.dtype)
    return Parameter(weight, linear_w.requires_grad), Parameter(bias, linear_b.requires_grad)
