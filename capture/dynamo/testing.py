"""torch._dynamo.testing: backends that count."""

from __future__ import annotations

from typing import Any


class CompileCounter:
    """A backend that runs graphs as they are: `frame_count` graphs came, with `op_count` calls in all."""

    def __init__(self):
        self.frame_count = self.op_count = 0

    def __call__(self, gm: Any, example_inputs: Any) -> Any:
        self.frame_count += 1
        self.op_count += sum([node.op.startswith("call") for node in gm.graph.nodes])
        return gm.forward

    def clear(self) -> None:
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend(CompileCounter):
    """The same around another backend; `graphs` keeps what came."""

    def __init__(self, backend: Any):
        super().__init__()
        self.backend, self.graphs = backend, []

    def __call__(self, gm: Any, example_inputs: Any) -> Any:
        super().__call__(gm, example_inputs)
        self.graphs.append(gm)
        from ..frontend.backends import lookup

        return lookup(self.backend)[1](gm, example_inputs)

    def clear(self) -> None:
        super().clear()
        self.graphs = []
