"""torch.fx._compatibility: the decorator that marks what PyTorch keeps stable; it returns what it decorates."""


def compatibility(is_backward_compatible):
    """`@compatibility(is_backward_compatible=True)`: nothing is recorded."""

    def decorated(function):
        return function

    return decorated
