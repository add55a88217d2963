"""flambeau: PyTorch-style tensors, run eagerly by default and compiled on request, with every step readable.

The face of the package: public names and public module paths, nothing else. `flambeau.nn` is the same module object as
`flambeau.eager.nn`; a small import finder keeps it so however it is imported.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys

# Public first names of module paths, and where the modules really live.
_PUBLIC_MODULES = {
    "nn": "eager.nn",
    "optim": "eager.optim",
    "utils": "eager.utils",
    "autograd": "eager.autograd",
    "random": "eager.random",
    "compiler": "capture.compiler",
}


class _PublicPaths(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Serves `flambeau.nn.functional` as the module object of `flambeau.eager.nn.functional`, and so on."""

    def find_spec(self, name, path=None, target=None):
        package, _, rest = name.partition(".")
        first, _, tail = rest.partition(".")
        if package != __name__ or first not in _PUBLIC_MODULES:
            return None
        real = f"{__name__}.{_PUBLIC_MODULES[first]}" + (f".{tail}" if tail else "")
        return importlib.machinery.ModuleSpec(name, self, origin=real)

    def create_module(self, spec):
        module = importlib.import_module(spec.origin)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module):
        """The machinery has put the public spec on the module: its own one is restored, so relative imports stay right."""
        public = module.__spec__
        module.__spec__ = public.loader_state


if not any((type(finder).__name__, type(finder).__module__) == ("_PublicPaths", __name__) for finder in sys.meta_path):
    sys.meta_path.insert(0, _PublicPaths())

from . import capture, eager, inductor  # noqa: E402
from .capture.compiler import compile  # noqa: E402
from .capture import compiler  # noqa: E402
from .eager import api, autograd, nn, optim, random, utils  # noqa: E402
from .eager.api import *  # noqa: E402, F403
from .runtime.native import get_num_threads, set_num_threads  # noqa: E402

__version__ = "0.1.0"
