"""torch.backends: switches of libraries that are not used here. Setting one is allowed and changes nothing."""

from . import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum, quantized  # noqa: F401
