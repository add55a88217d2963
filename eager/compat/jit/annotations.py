"""torch.jit.annotations: type names for annotations."""

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: F401, UP035


class _BroadcastingList:
    """`BroadcastingList2[int]` in an annotation: a number or a list of that length."""

    def __getitem__(self, types):
        return self


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _BroadcastingList()
BroadcastingList4 = BroadcastingList5 = BroadcastingList6 = BroadcastingList1
