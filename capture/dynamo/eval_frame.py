"""torch._dynamo.eval_frame: packages ask it whether a module is a compiled one."""

from ..frontend.module import CompiledModule as OptimizedModule

__all__ = ["OptimizedModule"]
