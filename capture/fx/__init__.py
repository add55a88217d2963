"""torch.fx: programs as graphs that Python code reads, changes and runs.

In: a module or function for `symbolic_trace` (run once on proxies), or a graph that `flambeau.compile` captured for
`from_captured`. Out: a GraphModule: an `nn.Module` whose forward is the code of its `graph`.
"""

from ._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from .captured import from_captured
from .graph import CodeGen, Graph
from .graph_module import GraphModule
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_arg
from .proxy import Attribute, Proxy, TraceError
from .subgraph_rewriter import replace_pattern

__all__ = [
    "symbolic_trace",
    "Tracer",
    "wrap",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Transformer",
    "Node",
    "Proxy",
    "replace_pattern",
    "has_side_effect",
    "map_arg",
    "from_captured",
]
