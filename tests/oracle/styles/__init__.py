"""Models in the styles of popular repositories (see base.py)."""

from . import diffusion, fields, graphs, language, sequences, vision  # noqa: F401 (they enter their models)
from .base import MODELS  # noqa: F401
