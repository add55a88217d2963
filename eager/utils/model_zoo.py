"""torch.utils.model_zoo: the older name of the hub's loader."""

from ..compat.hub import load_state_dict_from_url as load_url  # noqa: F401
