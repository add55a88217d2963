"""Parameters as one vector, and back."""

from ... import api


def parameters_to_vector(parameters):
    """All elements of the parameters, in their order."""
    return api.cat([p.view(-1) for p in parameters])


def vector_to_parameters(vec, parameters):
    """Each parameter's data becomes the slice of `vec` (a view) that is its own."""
    if not isinstance(vec, api.Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__module__}.{type(vec).__name__}")
    at = 0
    for p in parameters:
        p.data = vec[at : at + p.numel()].view_as(p).data
        at += p.numel()
