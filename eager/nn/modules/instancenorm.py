"""Instance norm: each sample's channels by themselves, also of a single sample without batch dim."""

import warnings

from .. import functional as F
from .batchnorm import _NormBase
from .utils import _check_rank

__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]


class _InstanceNorm(_NormBase):
    def __init__(
        self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False, device=None, dtype=None, *, bias=True
    ):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _get_no_batch_dim(self):
        raise NotImplementedError(f"{type(self).__name__} does not say which inputs it takes")

    def forward(self, input):
        self._check_input_dim(input)
        lone = input.ndim == self._get_no_batch_dim()
        self._fl_check_features(input, -self._get_no_batch_dim())
        out = F.instance_norm(
            input.unsqueeze(0) if lone else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return out.squeeze(0) if lone else out

    def _fl_check_features(self, input, dim):
        if input.shape[dim] != self.num_features:
            place = input.ndim + dim
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={place} to match num_features ({self.num_features}), "
                    f"but got: {input.shape[dim]}."
                )
            warnings.warn(
                f"input's size at dim={place} does not match num_features. You can silence this warning by "
                "not passing in num_features, which is not used because affine=False",
                stacklevel=3,
            )


def _instance_norm(name, rank):
    class Norm(_InstanceNorm):
        def _get_no_batch_dim(self):
            return rank

        def _check_input_dim(self, input):
            _check_rank(input, rank, rank + 1)

    Norm.__name__ = Norm.__qualname__ = name
    Norm.__doc__ = f"Instance norm of inputs with {rank + 1} dims, or {rank} without a batch."
    return Norm


InstanceNorm1d = _instance_norm("InstanceNorm1d", 2)
InstanceNorm2d = _instance_norm("InstanceNorm2d", 3)
InstanceNorm3d = _instance_norm("InstanceNorm3d", 4)
