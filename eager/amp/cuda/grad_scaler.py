"""torch.cuda.amp.grad_scaler"""

from ..grad_scaler import OptState
from . import GradScaler
