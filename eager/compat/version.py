"""torch.version: the release of PyTorch whose API and behaviour are the standard here."""

from .torch_version import TorchVersion

__version__ = TorchVersion("2.13.0")
cuda = hip = xpu = None
debug = False
git_version = "none"
