"""Graphs to kernels. Importing the package enters its backends by name; their modules are imported at the first use."""

from ..capture.frontend.backends import register

register("eager", ".inductor.driver:eager_backend", "run the captured graph node by node")
register("aot_eager", ".inductor.driver:aot_eager_backend", "run functional forward and backward graphs node by node")
register("loops", ".inductor.driver:loops_backend", "run the loop IR on numpy")
register("inductor", ".inductor.backend:inductor", "run generated C++")
register("triton", ".inductor.triton.target:triton_backend", "run generated Triton kernels, here in triton's interpreter")
