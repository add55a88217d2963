"""torch.fx names that packages use at import. The graph of a function is what `flambeau.compile` captures; tracing by
proxies does not exist here, so its classes can be subclassed and raise when constructed."""

from ..eager.compat import missing

_ADVICE = "graphs are captured by flambeau.compile; see flambeau.compiler.explain"


def wrap(fn_or_name):
    """Returns its argument: capture needs no list of functions to leave whole."""
    return fn_or_name


globals().update(missing.kinds("torch.fx", "Tracer Proxy GraphModule Graph Node Interpreter Transformer", _ADVICE))
symbolic_trace = missing.function("torch.fx.symbolic_trace", _ADVICE)
