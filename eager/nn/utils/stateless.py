"""functional_call: a module called with other tensors in the place of its parameters and buffers."""

from contextlib import contextmanager

__all__ = ["functional_call"]


def _tables(module):
    """Full name -> (table, key) of every parameter and buffer, tied ones under each of their names."""
    found = {}
    for prefix, each in module.named_modules(remove_duplicate=False):
        for table in (each._parameters, each._buffers):
            for key, value in table.items():
                if value is not None:
                    found[f"{prefix}.{key}" if prefix else key] = table, key
    return found


def _tied(module, tables, values):
    """The given tensors under all the names that mean the same parameter."""
    groups = {}
    for name, (table, key) in tables.items():
        groups.setdefault(id(table[key]), []).append(name)
    given = dict(values)
    for names in groups.values():
        known = [n for n in names if n in values]
        if len({id(values[n]) for n in known}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(known)}, which are tied. Consider using tie_weights=False"
            )
        if known:
            given.update({n: values[known[0]] for n in names})
    return given


def _check_strict(tables, given):
    missing, unexpected = sorted(tables.keys() - given.keys()), sorted(given.keys() - tables.keys())
    if missing or unexpected:
        text = "Error(s) in loading parameters and buffers:"
        if unexpected:
            text += f"\n\tUnexpected key(s): {', '.join(unexpected)}."
        raise RuntimeError(text + (f"\n\tMissing key(s): {', '.join(missing)}." if missing else ""))


@contextmanager
def reparametrized(module, values, tie_weights=True, strict=False):
    """Inside, the module has these tensors; what it writes to them goes to the given dict's tensors."""
    tables = _tables(module)
    given = _tied(module, tables, values) if tie_weights else dict(values)
    if strict:
        _check_strict(tables, given)
    swapped = [(*tables[name], name) for name in given if name in tables]
    before = [table[key] for table, key, _ in swapped]
    try:
        for table, key, name in swapped:
            table[key] = given[name]
        yield
    finally:
        for (table, key, name), old in zip(swapped, before):
            if name in values and table[key] is not given[name]:
                values[name] = table[key]  # the module has assigned another buffer
            table[key] = old


def _reparametrize_module(module, parameters_and_buffers, tie_weights=False, strict=False, stack_weights=False):
    """The same by PyTorch's private name, which packages use."""
    return reparametrized(module, parameters_and_buffers, tie_weights, strict)


def functional_call(module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """`module(*args, **kwargs)` with the tensors of the dict (or of several dicts) instead of its own.

    `args` is a tuple, or one argument. Tied parameters change together unless `tie_weights` is False. With `strict`
    every parameter and buffer must be given, and nothing else.
    """
    values = parameters_and_buffers
    if isinstance(values, (list, tuple)):
        names = [name for each in values for name in each]
        if len(set(names)) != len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise ValueError(f"{twice} appeared in multiple dictionaries; behavior of functional call is ambiguous")
        values = {name: value for each in values for name, value in each.items()}
    elif not isinstance(values, dict):
        raise ValueError(f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(values)}")
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with reparametrized(module, values, tie_weights, strict):
        return module(*args, **(kwargs or {}))
