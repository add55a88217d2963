"""The two kinds of pipes. A pipe's methods are the pipes that were marked with `functional_datapipe`."""

from __future__ import annotations

import functools
from typing import Any

from ..dataset import Dataset, IterableDataset


class _Methods:
    """Pipes by the names of the methods that make them."""

    functions: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name in type(self).functions:
            return functools.partial(type(self).functions[name], self)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    @classmethod
    def register_function(cls, name: str, function: Any) -> None:
        cls.functions[name] = function

    @classmethod
    def register_datapipe_as_function(cls, name: str, pipe: type, enable_df_api_tracing: bool = False) -> None:
        if name in cls.functions:
            raise Exception(f"Unable to add DataPipe function name {name} as it is already taken")
        cls.register_function(name, pipe)

    def __str__(self) -> str:
        return f"{type(self).__qualname__}"


class IterDataPipe(_Methods, IterableDataset):
    """A dataset that is read in order; each reader starts at the beginning."""

    functions: dict[str, Any] = {}

    def reset(self) -> None:
        """Called by those that keep a state; there is none here."""


class DFIterDataPipe(IterDataPipe):
    """Of tables; none is made here."""


class MapDataPipe(_Methods, Dataset):
    """A dataset with `len` and items by number."""

    functions: dict[str, Any] = {}


def functional_datapipe(name: str, enable_df_api_tracing: bool = False):
    """A decorator of pipes: the class is also the method `name` of all pipes of its kind."""
    if not isinstance(name, str):
        raise TypeError("Expected a string `name`")

    def decorate(cls: type) -> type:
        if not issubclass(cls, (IterDataPipe, MapDataPipe)):
            raise TypeError("`functional_datapipe` can only decorate IterDataPipe or MapDataPipe")
        home = IterDataPipe if issubclass(cls, IterDataPipe) else MapDataPipe
        home.register_datapipe_as_function(name, cls, enable_df_api_tracing)
        return cls

    return decorate
