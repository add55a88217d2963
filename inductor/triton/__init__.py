"""The Triton backend: a loop program as one file of `@triton.jit` kernels, compiled ahead of time or interpreted.

Nothing outside of this folder imports triton; inside, `triton_api.py` does, when a kernel is interpreted or compiled.
"""
