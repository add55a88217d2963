"""`alias_torch()`: the module `torch` and its paths, answered by flambeau.

The module `torch` has flambeau's names and PyTorch's version number. Paths below it are served by the package's import
finder as the very same module objects; `importlib.metadata` is told of a distribution `torch` of that version.
"""

import functools
import importlib.machinery
import importlib.metadata
import sys
import types

from .eager import class_homes, random
from .eager.compat import version
from .runtime import spawn as children

NAME = "torch"
SPAWN = "multiprocessing.spawn"
OWN = (f"{__package__}.eager.", f"{__package__}.capture.")


class TorchModule(types.ModuleType):
    """flambeau under PyTorch's name: its names are copied (so that access is as fast), later ones are fetched."""

    def __getattr__(self, name):
        try:
            value = getattr(self.__flambeau__, name)
        except AttributeError:
            raise AttributeError(
                f"module 'torch' (served by flambeau) has no attribute {name!r}: torch.{name} does "
                "not exist in flambeau; docs/api.md lists what does"
            ) from None
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
    """Finds the distribution `torch` before any installed one, multiprocessing's way to start processes, and modules of this
    package, whose classes get their homes below `torch`."""

    def __init__(self, homes):
        self.homes = homes

    def find_spec(self, name, path=None, target=None):
        if name != SPAWN and not name.startswith(OWN):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Spawning(spec.loader) if name == SPAWN else _Settling(spec.loader, self.homes)
        return spec

    def find_distributions(self, context=importlib.metadata.DistributionFinder.Context()):
        return [Distribution()] if context.name == NAME else []


def install(flambeau, numbers=None):
    """Puts `torch` into sys.modules; RuntimeError if another torch is there. `numbers`: whose random numbers; None: as before."""
    present = sys.modules.get(NAME)
    if present is None or isinstance(present, TorchModule):
        if numbers is not None:
            random.use(numbers)
        if present is not None:
            return
    if present is not None:
        raise RuntimeError(
            f"alias_torch(): torch {getattr(present, '__version__', '')} is already imported from "
            f"{getattr(present, '__file__', 'elsewhere')}; call flambeau.alias_torch() before anything "
            "imports torch"
        )
    finder = next(f for f in sys.meta_path if type(f) is flambeau._PublicPaths)
    finder.packages = {flambeau.__name__: "", NAME: "", "functorch": "functorch"}
    sys.modules[NAME] = _module(flambeau)
    homes = _Homes(flambeau)
    sys.meta_path.insert(0, Metadata(homes))
    children.setup.append(flambeau.alias_torch)  # spawned workers unpickle classes that import torch
    if SPAWN in sys.modules:
        _reach_children(sys.modules[SPAWN])
    for path, module in [*sys.modules.items()]:
        public, _, rest = path.partition(".")
        if public == flambeau.__name__ and rest.partition(".")[0] in flambeau._PUBLIC_MODULES:
            sys.modules.setdefault(f"{NAME}.{rest}", module)
    for path, module in [*sys.modules.items()]:
        if path.startswith(OWN) and isinstance(module, types.ModuleType) and module.__name__ == path:
            homes.settle(module)


class _Homes:
    """Gives classes their homes below `torch`, and modules their public paths, where `inspect` and `pickle` look."""

    def __init__(self, flambeau):
        self.flambeau, self.waiting, self.loading = flambeau, [], 0

    def settle(self, module):
        home = class_homes.settle(module, self.flambeau.__name__, self.flambeau._PUBLIC_MODULES)
        if home is not None:
            self.waiting.append(home)
        while self.waiting and not self.loading:  # the public path of a module that is only half there would stay so
            importlib.import_module(self.waiting.pop())


class _Started:
    """Part of what a spawned process is told before it imports the program: reading it there aliases torch."""

    def __reduce__(self):
        return exec, (
            f"import sys\nsys.path += [path for path in {sys.path!r} if path not in sys.path]\n"
            f"import {__package__}\n{__package__}.alias_torch(random={random.used()!r})\n",
        )


class _Spawning:
    """Loads multiprocessing.spawn as its own loader does."""

    def __init__(self, loader):
        self.loader = loader

    def __getattr__(self, name):  # what inspect, linecache and pkgutil ask a loader for
        return getattr(self.loader, name)

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)
        _reach_children(module)


class _Settling(_Spawning):
    """Loads a module of this package, whose classes get their homes then."""

    def __init__(self, loader, homes):
        super().__init__(loader)
        self.homes = homes

    def exec_module(self, module):
        self.homes.loading += 1
        try:
            self.loader.exec_module(module)
        finally:
            self.homes.loading -= 1
        self.homes.settle(module)


def _reach_children(spawn):
    """Children of plain multiprocessing (spawn, forkserver) have the alias before they read what the program sends them."""
    before = spawn.get_preparation_data

    @functools.wraps(before)
    def prepared(name):
        return {"torch": _Started(), **before(name)}

    spawn.get_preparation_data = prepared


def _module(flambeau):
    module = TorchModule(NAME, flambeau.__doc__)
    module.__dict__.update({k: v for k, v in vars(flambeau).items() if not (k.startswith("__") and k.endswith("__"))})
    module.__flambeau__, module.torch = flambeau, module
    module.__version__ = version.__version__
    module.__file__, module.__path__ = flambeau.__file__, []
    module.__spec__ = importlib.machinery.ModuleSpec(NAME, None, origin=flambeau.__file__, is_package=True)
    return module
