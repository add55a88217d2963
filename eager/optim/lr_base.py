"""The base of learning rate schedules: `step()` asks a subclass for the groups' rates and writes them.

A rate that is a tensor stays the same tensor and gets a new value, so that compiled steps see it.
"""

from collections.abc import Callable

from ..tensor import Tensor
from .optimizer import Optimizer, as_float


def check_optimizer(optimizer):
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def set_rate(group, rate):
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate


class LRScheduler:
    """Base: `last_epoch` counts steps from 0; a subclass gives `get_lr()` from the groups' current rates."""

    _get_closed_form_lr: Callable[[], list]  # of the classes that have one

    def __init__(self, optimizer, last_epoch=-1):
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", as_float(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(f"param 'initial_lr' is not specified in param_groups[{i}] when resuming an optimizer")
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        self.step()

    def _fl_rates(self):
        return [as_float(group["lr"]) for group in self.optimizer.param_groups]

    def get_lr(self):
        raise RuntimeError(f"{type(self).__name__} does not define get_lr()")

    def get_last_lr(self):
        return self._last_lr

    def step(self, epoch=None):
        self._step_count += 1
        if epoch is None:
            self.last_epoch += 1
            rates = self.get_lr()
        else:
            self.last_epoch = epoch
            rates = self._get_closed_form_lr() if hasattr(self, "_get_closed_form_lr") else self.get_lr()
        for group, rate in zip(self.optimizer.param_groups, rates):
            set_rate(group, rate)
        self._last_lr = self._fl_rates()

    def state_dict(self):
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict):
        self.__dict__.update(state_dict)
