"""Utilities: datasets and loaders, hook handles."""

from . import data, hooks
