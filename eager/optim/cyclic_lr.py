"""Schedules that go round, or that look at a metric: cosine restarts, cyclic rates, the one-cycle policy, plateaus."""

import math
from typing import Any

from .lr_base import LRScheduler, check_optimizer, set_rate


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine down to eta_min over T_0 epochs, then again over T_0 * T_mult, and so on. Steps may be fractions."""

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        self.T_0, self.T_i, self.T_mult, self.eta_min, self.T_cur = T_0, T_0, T_mult, eta_min, last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        scale = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * scale for base in self.base_lrs]

    def step(self, epoch=None):
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            self._fl_place(epoch)
        self.last_epoch = math.floor(epoch)
        for group, rate in zip(self.optimizer.param_groups, self.get_lr()):
            set_rate(group, rate)
        self._last_lr = self._fl_rates()

    def _fl_place(self, epoch):
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_i, self.T_cur = self.T_0, epoch % self.T_0
        else:
            n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**n


def per_group(optimizer, value, name):
    """One value per parameter group."""
    groups = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * groups
    if len(value) != groups:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, "
            f"param_groups has {groups}."
        )
    return list(value)


def momentum_of(group, value=None):
    """The momentum of a group: its own, or the first beta; set where a value is given."""
    if value is not None:
        if "betas" in group:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value
    return group["betas"][0] if "betas" in group else group["momentum"]


class CyclicLR(LRScheduler):
    """A triangle wave between base_lr and max_lr; momentum goes the other way."""

    def __init__(
        self,
        optimizer,
        base_lr,
        max_lr,
        step_size_up=2000,
        step_size_down=None,
        mode="triangular",
        gamma=1.0,
        scale_fn=None,
        scale_mode="cycle",
        cycle_momentum=True,
        base_momentum=0.8,
        max_momentum=0.9,
        last_epoch=-1,
    ):
        check_optimizer(optimizer)
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.optimizer, self.mode, self.gamma, self.cycle_momentum = optimizer, mode, gamma, cycle_momentum
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self._scale_fn_custom, self.scale_mode = scale_fn, scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        for group, rate in zip(optimizer.param_groups, per_group(optimizer, base_lr, "base_lr")):
            if last_epoch == -1:
                set_rate(group, rate)
        self.max_lrs = per_group(optimizer, max_lr, "max_lr")
        if cycle_momentum:
            self._fl_prepare_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = per_group(optimizer, base_lr, "base_lr")

    def _fl_prepare_momentum(self, base, top, last_epoch):
        if "momentum" not in self.optimizer.defaults and "betas" not in self.optimizer.defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.base_momentums = per_group(self.optimizer, base, "base_momentum")
        self.max_momentums = per_group(self.optimizer, top, "max_momentum")
        for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums):
            if last_epoch == -1:
                momentum_of(group, high)
            group["max_momentum"], group["base_momentum"] = high, low

    def scale_fn(self, x):
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        return {"triangular": lambda: 1.0, "triangular2": lambda: 1 / 2.0 ** (x - 1), "exp_range": lambda: self.gamma**x}[
            self.mode
        ]()

    def get_lr(self):
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums):
                momentum_of(group, high - (high - low) * height)
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs)]

    def state_dict(self):
        """A function given as scale_fn is not saved; the attributes of a callable object are."""
        state = super().state_dict()
        fn = state.pop("_scale_fn_custom")
        state["_scale_fn_custom"] = (
            dict(fn.__dict__) if fn is not None and hasattr(fn, "__dict__") and not hasattr(fn, "__code__") else None
        )
        return state

    def load_state_dict(self, state_dict):
        state = dict(state_dict)
        saved = state.pop("_scale_fn_custom")
        if saved is not None:
            self._scale_fn_custom.__dict__.update(saved)
        super().load_state_dict(state)


class OneCycleLR(LRScheduler):
    """From max_lr / div_factor up to max_lr over pct_start of the steps, then down to initial / final_div_factor; the
    momentum goes the other way. `step()` may be called `total_steps` times."""

    def __init__(
        self,
        optimizer,
        max_lr,
        total_steps=None,
        epochs=None,
        steps_per_epoch=None,
        pct_start=0.3,
        anneal_strategy="cos",
        cycle_momentum=True,
        base_momentum=0.85,
        max_momentum=0.95,
        div_factor=25.0,
        final_div_factor=1e4,
        three_phase=False,
        last_epoch=-1,
    ):
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        self._schedule_phases = self._fl_phases(pct_start, three_phase, cycle_momentum)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type, self.cycle_momentum = anneal_strategy, cycle_momentum
        tops = per_group(optimizer, max_lr, "max_lr")
        if last_epoch == -1:
            for group, top in zip(optimizer.param_groups, tops):
                group["initial_lr"], group["max_lr"] = top / div_factor, top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        if cycle_momentum:
            self._fl_prepare_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _fl_prepare_momentum(self, base, top, last_epoch):
        if "momentum" not in self.optimizer.defaults and "betas" not in self.optimizer.defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        if last_epoch != -1:
            return
        lows, highs = (per_group(self.optimizer, v, n) for v, n in ((base, "base_momentum"), (top, "max_momentum")))
        for group, low, high in zip(self.optimizer.param_groups, lows, highs):
            momentum_of(group, high)
            group["max_momentum"], group["base_momentum"] = high, low

    def _fl_phases(self, pct_start, three_phase, cycle_momentum):
        """[(last step, rate at start, rate at end, momentum at start, at end)], as names of the group's entries."""
        rise = float(pct_start * self.total_steps) - 1
        names: list[tuple[Any, ...]] = [
            ("initial_lr", "max_lr", "max_momentum", "base_momentum"),
            ("max_lr", "initial_lr" if three_phase else "min_lr", "base_momentum", "max_momentum"),
        ]
        ends = [rise, self.total_steps - 1]
        if three_phase:
            names.append(("initial_lr", "min_lr", "max_momentum", "max_momentum"))
            ends.insert(1, float(2 * pct_start * self.total_steps) - 2)
        keys = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
        return [dict(zip(keys, (end, *each))) for end, each in zip(ends, names)]

    def _fl_anneal(self, start, end, done):
        if self._anneal_func_type == "linear":
            return (end - start) * done + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * done) + 1)

    def get_lr(self):
        if self.last_epoch > self.total_steps:
            raise ValueError(f"Tried to step {self.last_epoch} times. The specified number of total steps is {self.total_steps}")
        begin = 0.0
        for phase in self._schedule_phases:
            if self.last_epoch <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            begin = phase["end_step"]
        done = (self.last_epoch - begin) / (phase["end_step"] - begin)
        groups = self.optimizer.param_groups
        if self.cycle_momentum:
            for group in groups:
                momentum_of(group, self._fl_anneal(group[phase["start_momentum"]], group[phase["end_momentum"]], done))
        return [self._fl_anneal(group[phase["start_lr"]], group[phase["end_lr"]], done) for group in groups]


def _total_steps(total_steps, epochs, steps_per_epoch):
    if total_steps is None and (epochs is None or steps_per_epoch is None):
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    names = (
        (("total_steps", total_steps),) if total_steps is not None else (("epochs", epochs), ("steps_per_epoch", steps_per_epoch))
    )
    for name, value in names:
        if value <= 0 or not isinstance(value, int):
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return total_steps if total_steps is not None else epochs * steps_per_epoch


class ReduceLROnPlateau(LRScheduler):
    """Times `factor` when the metric given to `step` has not improved for more than `patience` calls."""

    def __init__(
        self, optimizer, mode="min", factor=0.1, patience=10, threshold=1e-4, threshold_mode="rel", cooldown=0, min_lr=0, eps=1e-8
    ):
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        check_optimizer(optimizer)
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.optimizer, self.factor, self.default_min_lr = optimizer, factor, None
        self.min_lrs = per_group(optimizer, min_lr, "min_lr")
        self.patience, self.cooldown, self.eps = patience, cooldown, eps
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.last_epoch, self._last_lr = 0, self._fl_rates()
        self._reset()

    def _reset(self):
        self.mode_worse = math.inf if self.mode == "min" else -math.inf
        self.best, self.num_bad_epochs, self.cooldown_counter = self.mode_worse, 0, 0

    def step(self, metrics, epoch=None):
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(current, self.best):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(self.last_epoch)
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._fl_rates()

    def _reduce_lr(self, epoch):
        for group, rate, low in zip(self.optimizer.param_groups, self._fl_rates(), self.min_lrs):
            lower = max(rate * self.factor, low)
            if rate - lower > self.eps:
                set_rate(group, lower)

    @property
    def in_cooldown(self):
        return self.cooldown_counter > 0

    def is_better(self, a, best):
        sign = 1 if self.mode == "max" else -1
        if self.threshold_mode == "rel":
            return sign * a > sign * best * (1 + sign * self.threshold)
        return sign * a > sign * best + self.threshold
