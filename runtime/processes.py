"""Child processes that write what they have to say into a file, and such that are given a text when it is known.

In: a program with arguments. Out: `Process`: its exit status when it has ended. Nothing here imports `subprocess`, which is
a twentieth of what a first small compilation takes.
"""

from __future__ import annotations

import os
from typing import Literal, overload

from . import locks

DEFAULT = (13, 25)  # SIGPIPE and SIGXFSZ, which Python ignores and a child must not
_open: set[int] = set()  # ends of pipes that a forked child must not keep: the reader would wait for it


def which(name: str) -> str | None:
    """The path of a program: itself where it names a folder, else in PATH."""
    folders = [""] if os.path.dirname(name) else os.environ.get("PATH", os.defpath).split(os.pathsep)
    for folder in folders:
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    return None


class Process:
    """A program that runs, with those that it starts a group of processes of its own. `output`: the file that receives what it
    prints; beside it lie its temporary files. With `waits` it reads what `tell` is given."""

    def __init__(self, command: list[str], output: str, waits: bool = False):
        self.command, self.output = command, output
        self.code: int | None = None  # its exit status
        self.pipe: int | None = None
        with locks.importing:  # no child is forked between a pipe and the note of it
            reading = self._begin_pipe() if waits else None
        given = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0) if reading is None else (os.POSIX_SPAWN_DUP2, reading, 0)
        to_file = (os.POSIX_SPAWN_OPEN, 1, output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        actions = (given, to_file, (os.POSIX_SPAWN_DUP2, 1, 2))
        try:
            self.pid = os.posix_spawn(
                command[0],
                command,
                os.environ | {"TMPDIR": os.path.dirname(output)},
                file_actions=actions,
                setsigdef=DEFAULT,
                setpgroup=0,
            )
        except BaseException:
            self._close()
            raise
        finally:
            if reading is not None:
                os.close(reading)

    def _begin_pipe(self) -> int:
        reading, self.pipe = os.pipe()
        _open.add(self.pipe)
        return reading

    def tell(self, text: str) -> None:
        """All that it will read. It may have ended before: its exit status tells."""
        assert self.pipe is not None, "it was started without `waits`"
        data = memoryview(text.encode())
        try:
            while data:
                data = data[os.write(self.pipe, data) :]
        except BrokenPipeError:
            pass
        finally:
            self._close()

    def _close(self) -> None:
        if self.pipe is not None:
            with locks.importing:
                os.close(self.pipe)
                _open.discard(self.pipe)
                self.pipe = None

    @overload
    def wait(self, block: Literal[True] = True) -> int: ...
    @overload
    def wait(self, block: bool) -> int | None: ...
    def wait(self, block: bool = True) -> int | None:
        """Its exit status, negative for a signal; None where it runs and nobody wants to `block`."""
        if self.code is None:
            try:
                ended, status = os.waitpid(self.pid, 0 if block else os.WNOHANG)
            except ChildProcessError:  # somebody else asked for it: what it made tells
                ended, status = self.pid, 0
            if ended:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code

    def end(self) -> None:
        """Kill it where it runs, and what it has started: a compiler's parts would outlive it and leave their files."""
        self._close()
        if self.wait(block=False) is None:
            os.killpg(self.pid, 9)
            self.wait()

    def said(self) -> str:
        try:
            with open(self.output, errors="replace") as file:
                return file.read()
        except OSError:
            return ""


def _leave() -> None:
    while _open:
        os.close(_open.pop())


os.register_at_fork(after_in_child=_leave)
