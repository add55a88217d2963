"""Placeholders for what does not exist here: importing and subclassing work, use is an error that names the symbol."""


def error(symbol, advice="docs/api.md lists what exists"):
    return RuntimeError(f"{symbol} does not exist in flambeau: {advice}")


def function(symbol, advice="docs/api.md lists what exists"):
    """A function that raises when it is called."""

    def absent(*args, **kwargs):
        raise error(symbol, advice)

    absent.__name__ = absent.__qualname__ = symbol.rpartition(".")[2]
    absent.__module__ = symbol.rpartition(".")[0]
    absent.__doc__ = f"Raises: {symbol} does not exist here."
    absent.missing = symbol
    return absent


def kind(symbol, advice="docs/api.md lists what exists"):
    """A class that raises when it (or a subclass) is constructed: `isinstance`, `class X(...)` and `X[...]` work."""

    def __new__(cls, *args, **kwargs):
        raise error(symbol, advice)

    def __init_subclass__(cls, **kwargs):
        """Words after the bases are taken as they are."""

    module, _, name = symbol.rpartition(".")
    return type(
        name,
        (),
        {
            "__new__": __new__,
            "__init_subclass__": __init_subclass__,
            "__class_getitem__": classmethod(_itself),
            "__module__": module,
            "__doc__": f"{symbol} does not exist here.",
            "missing": symbol,
        },
    )


def _itself(cls, item):
    return cls


def functions(prefix, names, advice="docs/api.md lists what exists"):
    return {name: function(f"{prefix}.{name}", advice) for name in names.split()}


def kinds(prefix, names, advice="docs/api.md lists what exists"):
    return {name: kind(f"{prefix}.{name}", advice) for name in names.split()}
