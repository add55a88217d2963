"""torch.backends.cpu: what the processor can do, as the kernels use it."""

from ....runtime import native


def get_cpu_capability():
    return {"avx512": "AVX512", "avx2": "AVX2"}.get(native.isa(), "DEFAULT")
