"""Graphs to kernels. Importing the package enters its backends by name, and who launches the user's own Triton kernels; their
modules are imported at the first use."""

from types import ModuleType

from ..capture.frontend.backends import register
from ..eager.ops.user_kernels import register_launcher


def _launcher() -> ModuleType:
    from .triton import user_kernels

    return user_kernels


register_launcher(_launcher)

register("eager", ".inductor.debug_backends:EAGER", "run the captured graph node by node")
register("aot_eager", ".inductor.debug_backends:AOT_EAGER", "run functional forward and backward graphs node by node")
register("loops", ".inductor.debug_backends:LOOPS", "run the loop IR on numpy")
register("inductor", ".inductor.backend:INDUCTOR", "run generated C++")
register("triton", ".inductor.triton.target:TRITON", "run generated Triton kernels, here in triton's interpreter")
