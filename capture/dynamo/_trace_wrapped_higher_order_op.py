"""The one name that packages import from this private path."""

import contextlib


class TransformGetItemToIndex(contextlib.nullcontext):
    """A context that changes nothing: indexing by a tensor of no dims is an op here, also under `vmap`."""
