"""torch.utils.data.datapipes.map: pipes with items by number.

No code stands here: PyTorch has a module `map.callable`, and a module below this one hides the builtin of its name.
"""

from .indexed import Mapper, SequenceWrapper

__all__ = ["Mapper", "SequenceWrapper"]
