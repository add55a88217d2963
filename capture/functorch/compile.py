"""functorch.compile: how a compiled function takes its arguments."""

import functools


def make_boxed_func(f):
    """`f(*args)` as a function of one list, which may forget what is in it."""

    def boxed(args):
        return f(*args)

    boxed._boxed_call = True
    return boxed


def make_boxed_compiler(compiler):
    """A compiler whose functions take their arguments in one list."""

    @functools.wraps(compiler)
    def boxed(graph, example_inputs):
        return make_boxed_func(compiler(graph, example_inputs))

    return boxed


def nop(graph, example_inputs):
    """A compiler that gives the graph back as it is."""
    return graph
