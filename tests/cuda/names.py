"""What the stand-in offers, against cupy itself: every name exists there, every loop of a ufunc is one of cupy's.

In: an installed cupy (it imports without a GPU). Out: nothing, or a list of what differs and exit status 1.
"""

import sys

import fake_cupy as fake


def found(module, path):
    for name in path.split("."):
        module = getattr(module, name)
    return module


def missing(where, module, paths):
    for path in paths:
        try:
            found(module, path)
        except AttributeError:
            yield f"{where}.{path} does not exist"


def differences():
    import cupy
    import cupyx.scipy.special

    yield from (f"cupy.{name} is not listed" for name in fake._functions() if name not in fake.LISTED)
    yield from missing("cupy", cupy, fake.LISTED)
    yield from missing("cupyx", cupyx, [path.removeprefix("cupyx.") for path in fake.LISTED_BESIDE])
    yield from missing("ndarray", cupy.ndarray, fake.METHODS)
    yield from missing("Stream", cupy.cuda.Stream, fake.OF_STREAMS)
    yield from missing("Event", cupy.cuda.Event, fake.OF_EVENTS)
    yield from missing("MemoryPool", cupy.cuda.MemoryPool, fake.OF_POOLS)
    for name, loops in fake.TYPES.items():
        more = set(loops.split()) - set(getattr(cupy, name).types)
        if more:
            yield f"cupy.{name} has no loops {sorted(more)}"


if __name__ == "__main__":
    told = list(differences())
    print("\n".join(told))
    sys.exit(bool(told))
