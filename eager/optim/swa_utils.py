"""Averages of weights over training: AveragedModel (plain or exponential), SWALR, and batch-norm statistics for it."""

import copy
import itertools
import math
from typing import Any

from .. import api
from ..autograd import no_grad
from ..nn.modules.module import Module
from ..tensor import Tensor
from .lr_base import LRScheduler

__all__ = [
    "AveragedModel",
    "SWALR",
    "update_bn",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
]


def _check_decay(decay):
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_avg_fn(decay=0.999):
    """f(average, value, count) -> decay * average + (1 - decay) * value"""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param, current_param, num_averaged):
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn():
    """f(average, value, count) -> the mean of count + 1 values"""

    @no_grad()
    def swa_update(averaged_param, current_param, num_averaged):
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay=0.999):
    """The same over lists, in place."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param_list, current_param_list, _):
        for average, value in zip(ema_param_list, current_param_list):
            _blend(average, value, 1 - decay, decay)

    return ema_update


def get_swa_multi_avg_fn():
    @no_grad()
    def swa_update(averaged_param_list, current_param_list, num_averaged):
        rate = 1 / (float(num_averaged) + 1)
        for average, value in zip(averaged_param_list, current_param_list):
            _blend(average, value, rate, 1 - rate)

    return swa_update


def _blend(average, value, rate, rest):
    if average.is_floating_point() or average.is_complex():
        average.lerp_(value.to(average.dtype), rate)
    else:
        average.copy_(average * rest + value * rate)


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's at the calls of `update_parameters`."""

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", api.tensor(0, dtype=api.long, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def _averaged(self, model):
        return list(itertools.chain(model.parameters(), model.buffers() if self.use_buffers else ()))

    @no_grad()
    def update_parameters(self, model):
        averages, values = self._averaged(self.module), self._averaged(model)
        count = int(self.n_averaged)
        if count == 0:
            for average, value in zip(averages, values):
                average.copy_(value.detach())
        elif self.avg_fn is not None:
            for average, value in zip(averages, values):
                average.copy_(self.avg_fn(average.detach(), value.detach(), self.n_averaged))
        else:
            average_all: Any = self.multi_avg_fn or get_swa_multi_avg_fn()
            average_all([p.detach() for p in averages], [p.detach() for p in values], self.n_averaged)
        if not self.use_buffers:
            for own, theirs in zip(self.module.buffers(), model.buffers()):
                own.detach().copy_(theirs.detach())
        self.n_averaged += 1


@no_grad()
def update_bn(loader, model, device=None):
    """Running statistics of all batch norms in `model` from one pass over the loader."""
    momenta = {}
    for module in model.modules():
        if hasattr(module, "reset_running_stats") and hasattr(module, "running_mean"):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.momentum = None
    for batch in loader:
        x = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(x.to(device) if device is not None and isinstance(x, Tensor) else x)
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """From the present rate to `swa_lr` within `anneal_epochs`, then constant."""

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
        rates = swa_lr if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(optimizer.param_groups)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        for rate, group in zip(rates, optimizer.param_groups):
            group["swa_lr"] = rate
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, t):
        return (1 - math.cos(math.pi * t)) / 2 if self._anneal_strategy == "cos" else t

    def get_lr(self):
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before = self._share(max(0, min(1, (step - 1) / max(1, self.anneal_epochs))))
        now = self._share(max(0, min(1, step / max(1, self.anneal_epochs))))
        return [self._rate(group, rate, before, now) for group, rate in zip(self.optimizer.param_groups, self._fl_rates())]

    def _rate(self, group, rate, before, now):
        target = group["swa_lr"]
        start = target if before == 1 else (rate - before * target) / (1 - before)
        return target * now + start * (1 - now)
