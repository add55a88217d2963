"""torch.utils.data.datapipes: datasets in a chain, each of which reads the one before it (https://pytorch.org/data, first form).

`IterDataPipe` and `MapDataPipe` are datasets; a class that `@functional_datapipe("name")` marks is also the method `name` of
them: `IterableWrapper(range(6)).filter(odd).batch(2)`. Here are the pipes that reorder, pick and group; others are classes.
"""

from . import iter, map  # noqa: A004
from .datapipe import DFIterDataPipe, IterDataPipe, MapDataPipe

__all__ = ["DFIterDataPipe", "IterDataPipe", "MapDataPipe", "iter", "map"]
