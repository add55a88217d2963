"""torch.version: the release of PyTorch whose API and behaviour are the standard here."""

__version__ = "2.13.0"
cuda = hip = xpu = None
debug = False
git_version = "none"
