"""torch.types: names for annotations."""

import os
from typing import Any, Sequence, Union  # noqa: UP035

from .. import device as devices, dtypes
from ..sizes import Size
from ..tensor import Tensor

_TensorOrTensors = Union[Tensor, Sequence[Tensor]]
_dtype = dtypes.dtype
_device = devices.device
_size = Union[Size, list[int], tuple[int, ...]]
Device = Union[devices.device, str, int, None]
Number = Union[int, float, bool]
_Number = (int, float, bool)
FileLike = Union[str, os.PathLike, Any]
_bool, _int, _float, _complex = bool, int, float, complex
