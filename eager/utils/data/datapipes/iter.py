"""torch.utils.data.datapipes.iter: pipes that are read in order.

No code stands here: PyTorch has a module `iter.callable`, and a module below this one hides the builtin of its name.
"""

from .iterable import Batcher, Collator, Concater, Filter, IterableWrapper, Mapper, ShardingFilter, Shuffler, UnBatcher, Zipper

__all__ = [
    "Batcher",
    "Collator",
    "Concater",
    "Filter",
    "IterableWrapper",
    "Mapper",
    "ShardingFilter",
    "Shuffler",
    "UnBatcher",
    "Zipper",
]
