"""torch.cuda.amp.grad_scaler"""

from ..grad_scaler import OptState  # noqa: F401
from .scoped import GradScaler  # noqa: F401
