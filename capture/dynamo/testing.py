"""torch._dynamo.testing: backends that count."""


class CompileCounter:
    """A backend that runs graphs as they are: `frame_count` graphs came, with `op_count` calls in all."""

    def __init__(self):
        self.frame_count = self.op_count = 0

    def __call__(self, gm, example_inputs):
        self.frame_count += 1
        self.op_count += sum([node.op.startswith("call") for node in gm.graph.nodes])
        return gm.forward

    def clear(self):
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend(CompileCounter):
    """The same around another backend; `graphs` keeps what came."""

    def __init__(self, backend):
        super().__init__()
        self.backend, self.graphs = backend, []

    def __call__(self, gm, example_inputs):
        super().__call__(gm, example_inputs)
        self.graphs.append(gm)
        from ..frontend.backends import lookup

        return lookup(self.backend)[1](gm, example_inputs)

    def clear(self):
        super().clear()
        self.graphs = []
