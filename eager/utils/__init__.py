"""Utilities: datasets and loaders, hook handles, checkpoints."""

from . import checkpoint, data, dlpack, hooks
