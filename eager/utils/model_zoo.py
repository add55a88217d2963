"""torch.utils.model_zoo: the older name of the hub's loader."""

from ..compat.hub import load_state_dict_from_url as load_url  # noqa: F401

try:
    from tqdm import tqdm  # pyright: ignore[reportAssignmentType]  (below stands what is used of it)
except ImportError:  # a progress bar that is not there

    def tqdm(rows=None, *args, **kwargs):
        """The rows themselves."""
        return rows
