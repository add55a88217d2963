"""torch.utils.dlpack: the names of the protocol's two directions."""

from ..dlpack import DLDeviceType, from_dlpack, to_dlpack  # noqa: F401
