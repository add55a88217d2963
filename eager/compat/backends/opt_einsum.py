"""torch.backends.opt_einsum: einsum chooses its own order of contraction."""

enabled = False
strategy = None


def is_available():
    return False
