"""torch.backends.mkl: not used."""


def is_available():
    return False
