"""torch._prims_common: the few questions of it that packages ask."""


def is_contiguous_or_false(a):
    """Whether a tensor is row-major; sizes that are symbols are asked as they are."""
    return a.is_contiguous()
