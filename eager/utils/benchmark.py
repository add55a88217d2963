"""torch.utils.benchmark: times of statements with warm-up, enough runs, medians, and tables (source: PyTorch's module).

`Timer(stmt, setup, globals).blocked_autorange()` gives a `Measurement`; `Compare` prints several as a table. Seconds throughout.
"""

import timeit as _timeit

import numpy as np

from ...runtime import native

timer = _timeit.default_timer
_UNITS = ((1e-9, "ns"), (1e-6, "us"), (1e-3, "ms"), (1.0, "s"))


def select_unit(t):
    """(name, seconds) of the unit in which a time reads best."""
    scale, name = next(((s, n) for s, n in _UNITS[::-1] if t >= s), _UNITS[0])
    return name, scale


class TaskSpec:
    """What was measured."""

    def __init__(
        self, stmt, setup="pass", global_setup="", label=None, sub_label=None, description=None, env=None, num_threads=1
    ):
        self.stmt, self.setup, self.global_setup = stmt, setup, global_setup
        self.label, self.sub_label, self.description, self.env, self.num_threads = label, sub_label, description, env, num_threads

    @property
    def title(self):
        text = self.label or self.stmt
        return f"{text}: {self.sub_label}" if self.sub_label else text


class Measurement:
    """Times of blocks of `number_per_run` runs; `times` are per run."""

    def __init__(self, number_per_run, raw_times, task_spec, metadata=None):
        self.number_per_run, self.raw_times, self.task_spec, self.metadata = number_per_run, list(raw_times), task_spec, metadata

    times = property(lambda self: [t / self.number_per_run for t in self.raw_times])
    median = property(lambda self: float(np.median(self.times)))
    mean = property(lambda self: float(np.mean(self.times)))
    has_warnings = property(lambda self: not self.meets_confidence())
    title = property(lambda self: self.task_spec.title)
    description = property(lambda self: self.task_spec.description)
    num_threads = property(lambda self: self.task_spec.num_threads)
    env = property(lambda self: self.task_spec.env)

    @property
    def iqr(self):
        """The range of the middle half."""
        low, high = np.quantile(self.times, (0.25, 0.75))
        return float(high - low)

    def meets_confidence(self, threshold=0.1):
        """Whether the middle half lies within this share of the median."""
        return self.iqr <= threshold * self.median

    @staticmethod
    def merge(measurements):
        """Measurements of one task as one each."""
        groups = {}
        for one in measurements:
            groups.setdefault((id(one.task_spec), one.number_per_run), []).append(one)
        return [
            Measurement(group[0].number_per_run, [t for one in group for t in one.raw_times], group[0].task_spec, None)
            for group in groups.values()
        ]

    def __repr__(self):
        unit, scale = select_unit(self.median)
        lines = [f"<{__name__}.Measurement>", self.title]
        if self.task_spec.setup != "pass":
            lines.append(f"setup: {self.task_spec.setup}")
        lines.append(f"  {'Median: ' * (len(self.times) > 1)}{self.median / scale:.2f} {unit}")
        if len(self.times) > 3:
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit}")
        lines.append(
            f"  {len(self.times)} measurement{'s' * (len(self.times) > 1)}, {self.number_per_run} runs per measurement, "
            f"{self.num_threads} thread{'s' * (self.num_threads > 1)}"
        )
        if not self.meets_confidence():
            lines.append("  (the middle half of the times spreads over more than a tenth of the median)")
        return "\n".join(lines)


class _Threads:
    """The pool has `count` threads inside."""

    def __init__(self, count):
        self.count = count

    def __enter__(self):
        self.kept = native.get_num_threads()
        native.set_num_threads(self.count)

    def __exit__(self, *_):
        native.set_num_threads(self.kept)


class Timer:
    """Measures a Python statement. `globals`: the names it knows; `num_threads`: of the pool, while it is measured."""

    def __init__(
        self,
        stmt="pass",
        setup="pass",
        global_setup="",
        timer=timer,
        globals=None,
        label=None,
        sub_label=None,
        description=None,
        env=None,
        num_threads=1,
        language="python",
    ):
        if str(language).lower() not in ("python", "py", "language.python"):
            raise ValueError(f"Timer: only Python statements are measured here, not {language!r}")
        if global_setup:
            raise ValueError("Timer: global_setup is for C++ statements, which are not measured here")
        self._task_spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)
        self._timer = _timeit.Timer(stmt, setup, timer, dict(globals or {}))

    def _timed(self, number):
        return max(self._timer.timeit(number), 1e-9)

    def _measured(self, number, times):
        return Measurement(number, times, self._task_spec)

    def timeit(self, number=1000000):
        """One block of `number` runs, behind a short warm-up."""
        with _Threads(self._task_spec.num_threads):
            self._timed(max(number // 100, 2))
            return self._measured(number, [self._timed(number)])

    def repeat(self, repeat=-1, number=-1):
        raise NotImplementedError("Timer.repeat: use blocked_autorange or adaptive_autorange, as in PyTorch")

    autorange = repeat

    def _block(self, min_run_time):
        """Runs in a block such that the clock costs nothing beside it."""
        number, took = 1, self._timed(1)
        while took < min(0.001, min_run_time / 1000) or took / number * number < 1e-6:
            number *= 10
            took = self._timed(number)
        return number

    def blocked_autorange(self, callback=None, min_run_time=0.2):
        """Blocks of runs until their times add up to `min_run_time`."""
        with _Threads(self._task_spec.num_threads):
            number, times = self._block(min_run_time), []
            while sum(times) < min_run_time:
                times.append(self._timed(number))
                if callback:
                    callback(number, times[-1])
        return self._measured(number, times)

    def adaptive_autorange(self, threshold=0.1, *, min_run_time=0.01, max_run_time=10.0, callback=None):
        """Blocks until the middle half of the times lies within `threshold` of the median, or `max_run_time` is over."""
        with _Threads(self._task_spec.num_threads):
            number, times = self._block(min_run_time), []
            while True:
                times.append(self._timed(number))
                if callback:
                    callback(number, times[-1])
                found = self._measured(number, times)
                enough = len(times) > 3 and sum(times) >= min_run_time and found.meets_confidence(threshold)
                if enough or sum(times) >= max_run_time:
                    return found

    def collect_callgrind(self, *args, **kwargs):
        raise RuntimeError("Timer.collect_callgrind: instructions are not counted here; run the program under valgrind itself")


class Compare:
    """Measurements as a table: a row for each sub-label and number of threads, a column for each description."""

    def __init__(self, results):
        self._results = list(results)
        self._trimmed = False

    def extend_results(self, results):
        self._results += results

    def trim_significant_figures(self):
        """Times are shown with three figures."""
        self._trimmed = True

    def colorize(self, rowwise=False):
        """Nothing: the table is plain text."""

    def highlight_warnings(self):
        """Nothing: a measurement's own text says when its times spread."""

    def __str__(self):
        labels = dict.fromkeys(one.task_spec.label for one in self._results)
        return "\n".join([self._table(label, [one for one in self._results if one.task_spec.label == label]) for label in labels])

    def _table(self, label, results):
        columns = list(dict.fromkeys(one.description for one in results))
        name, scale = select_unit(min([one.median for one in results]))
        cells = {}
        for one in Measurement.merge(results):
            cells[one.num_threads, one.task_spec.sub_label or one.task_spec.stmt, one.description] = one.median / scale
        rows = [["", *map(str, columns)]]
        for threads, row in dict.fromkeys(key[:2] for key in cells):
            found = [cells.get((threads, row, column)) for column in columns]
            shown = ["" if v is None else f"{v:.3g}" if self._trimmed else f"{v:.1f}" for v in found]
            rows.append([f"{row} ({threads} thread{'s' * (threads > 1)})", *shown])
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = ["  |  ".join([cell.ljust(width) for cell, width in zip(row, widths)]).rstrip() for row in rows]
        return "\n".join([f"[{label or 'times'}]", lines[0], "-" * max(map(len, lines)), *lines[1:], f"Times are in {name}."])

    def print(self):
        print(self)


__all__ = ["Compare", "Measurement", "TaskSpec", "Timer", "select_unit", "timer"]
