"""cupy, if it is here with a GPU: found at the first question, told in words if not.

In: nothing. Out: `found()` -> (cupy or None, why not), `cupy()` -> the module, or an error that says what to install.
"""

from __future__ import annotations

INSTALL = "install cupy (`pip install cupy-cuda12x`, or cupy-cuda13x for CUDA 13) on a machine with an NVIDIA GPU and its driver"


class CudaUnavailable(RuntimeError):
    """CUDA was asked for where there is none."""


class _Found:
    answer: tuple | None = None


def found() -> tuple:
    """(cupy or None, the reason why there is none)."""
    if _Found.answer is None:
        _Found.answer = _look()
    return _Found.answer


def _look() -> tuple:
    try:
        import cupy
    except ImportError as error:
        return None, f"cupy cannot be imported ({error})"
    if int(cupy.__version__.split(".")[0]) < 13:
        return None, f"cupy {cupy.__version__} is too old (13 or later is needed)"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return None, f"cupy {cupy.__version__} finds no GPU ({error})"
    return (cupy, "") if count else (None, f"cupy {cupy.__version__} finds no GPU")


def cupy():
    """The module; raises where CUDA cannot be used."""
    module, why = found()
    if module is None:
        raise CudaUnavailable(f"CUDA is not available: {why}. To use device='cuda', {INSTALL}; else use device='cpu'.")
    return module
