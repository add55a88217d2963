"""From a list of samples to one batch, by PyTorch's path."""

from ..collate import default_collate as default_collate
from ..collate import default_convert as default_convert
