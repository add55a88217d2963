"""`alias_torch()`: the module `torch` and its paths, answered by flambeau.

The module `torch` has flambeau's names and PyTorch's version number. Paths below it are served by the package's import
finder as the very same module objects; `importlib.metadata` is told of a distribution `torch` of that version.
"""

import importlib.machinery
import importlib.metadata
import sys
import types

from .eager.compat import version
from .runtime import children

NAME = "torch"


class TorchModule(types.ModuleType):
    """flambeau under PyTorch's name: its names are copied (so that access is as fast), later ones are fetched."""

    def __getattr__(self, name):
        try:
            value = getattr(self.__flambeau__, name)
        except AttributeError:
            raise AttributeError(f"module 'torch' (served by flambeau) has no attribute {name!r}: torch.{name} does "
                                 "not exist in flambeau; docs/api.md lists what does") from None
        setattr(self, name, value)
        return value

    def __dir__(self):
        return sorted(set(dir(self.__flambeau__)) | set(vars(self)))


class Distribution(importlib.metadata.Distribution):
    """What `importlib.metadata` tells of `torch`."""

    def read_text(self, filename):
        if filename in ("METADATA", "PKG-INFO"):
            return f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version.__version__}\n"
        return None

    def locate_file(self, path):
        return path


class Metadata(importlib.metadata.DistributionFinder):
    """Finds the distribution `torch` before any installed one."""

    def find_spec(self, name, path=None, target=None):
        return None

    def find_distributions(self, context=importlib.metadata.DistributionFinder.Context()):
        return [Distribution()] if context.name == NAME else []


def install(flambeau):
    """Puts `torch` into sys.modules; RuntimeError if another torch is there."""
    present = sys.modules.get(NAME)
    if isinstance(present, TorchModule):
        return
    if present is not None:
        raise RuntimeError(f"alias_torch(): torch {getattr(present, '__version__', '')} is already imported from "
                           f"{getattr(present, '__file__', 'elsewhere')}; call flambeau.alias_torch() before anything "
                           "imports torch")
    finder = next(f for f in sys.meta_path if type(f) is flambeau._PublicPaths)
    finder.packages = (flambeau.__name__, NAME)
    sys.modules[NAME] = _module(flambeau)
    sys.meta_path.insert(0, Metadata())
    children.setup.append(flambeau.alias_torch)     # spawned workers unpickle classes that import torch
    for path, module in [*sys.modules.items()]:
        public, _, rest = path.partition(".")
        if public == flambeau.__name__ and rest.partition(".")[0] in flambeau._PUBLIC_MODULES:
            sys.modules.setdefault(f"{NAME}.{rest}", module)


def _module(flambeau):
    module = TorchModule(NAME, flambeau.__doc__)
    module.__dict__.update({k: v for k, v in vars(flambeau).items() if not (k.startswith("__") and k.endswith("__"))})
    module.__flambeau__ = flambeau
    module.__version__ = version.__version__
    module.__file__, module.__path__ = flambeau.__file__, []
    module.__spec__ = importlib.machinery.ModuleSpec(NAME, None, origin=flambeau.__file__, is_package=True)
    return module
