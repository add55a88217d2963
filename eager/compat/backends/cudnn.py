"""torch.backends.cudnn: not used here; its switches are plain attributes."""

from contextlib import contextmanager

enabled = benchmark = deterministic = False
allow_tf32 = True
benchmark_limit = 10
fp32_precision = "none"


def is_available():
    return False


def version():
    return None


@contextmanager
def flags(enabled=False, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True, **others):
    """Changes nothing."""
    yield
