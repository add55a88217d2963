"""The extension of capture/csrc: its functions check their arguments themselves, and are described there."""

from typing import Any

def __getattr__(name: str) -> Any: ...
