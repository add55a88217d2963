"""Placeholders for what does not exist here: importing and subclassing work, use is an error that names the symbol."""


def error(symbol, advice="docs/api.md lists what exists"):
    return RuntimeError(f"{symbol} does not exist in flambeau: {advice}")


def function(symbol, advice="docs/api.md lists what exists"):
    """A function that raises when it is called."""
    def absent(*args, **kwargs):
        raise error(symbol, advice)
    absent.__name__ = absent.__qualname__ = symbol.rpartition(".")[2]
    absent.__doc__ = f"Raises: {symbol} does not exist here."
    absent.missing = symbol
    return absent


def kind(symbol, advice="docs/api.md lists what exists"):
    """A class that raises when it (or a subclass) is constructed: `isinstance` and `class X(...)` work."""
    def __new__(cls, *args, **kwargs):
        raise error(symbol, advice)
    return type(symbol.rpartition(".")[2], (), {"__new__": __new__, "__doc__": f"{symbol} does not exist here.",
                                               "missing": symbol})


def functions(prefix, names, advice="docs/api.md lists what exists"):
    return {name: function(f"{prefix}.{name}", advice) for name in names.split()}


def kinds(prefix, names, advice="docs/api.md lists what exists"):
    return {name: kind(f"{prefix}.{name}", advice) for name in names.split()}
