"""torch.types: names for annotations."""

import os
from typing import Any
from collections.abc import Sequence

from .. import device as devices, dtypes
from ..sizes import Size
from ..tensor import Tensor

_TensorOrTensors = Tensor | Sequence[Tensor]
_dtype = dtypes.dtype
_device = devices.device
_size = Size | list[int] | tuple[int, ...]
Device = devices.device | str | int | None
Number = int | float | bool
_Number = (int, float, bool)
FileLike = str | os.PathLike | Any
_bool, _int, _float, _complex = bool, int, float, complex
