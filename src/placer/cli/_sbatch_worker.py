"""Work under a hard deadline: in a child process that is ended with all it started, whatever it hangs in.

A thread or an alarm could not end a solver that holds the interpreter, a blocked read or a stuck `scontrol`. The child
is forked, so it costs a few milliseconds and needs nothing handed over. It leads a process group of its own, which ends
with it; a signal that ends us (Ctrl-C) ends the group first.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from placer import errors

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_MAX_ANSWER: Final = 1 << 24


def within(seconds: float, work: Callable[[], bytes]) -> bytes:
    """What `work` returns. It runs in a child that cannot write to our stdout or stderr nor read our stdin.

    Raises CommandTimeoutError after `seconds`, PlacerError when the child ended without an answer.
    """
    deadline = time.monotonic() + seconds
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        _be_the_child(work, write_end)
    with contextlib.suppress(OSError):  # the child does the same; whoever is first
        os.setpgid(child, child)
    os.close(write_end)
    with _ends_with_us(child):
        try:
            answer = _collect(read_end, deadline)
        finally:
            os.close(read_end)
            _end(child)
    if answer is None:
        raise errors.CommandTimeoutError(
            f"no advice within {seconds:g} s", hint="--placer-timeout SECONDS, or --placer-off"
        )
    if not answer:
        raise errors.PlacerError("the advice ended without an answer", hint="PLACER_DEBUG=1 shows what it prints")
    return answer


def _be_the_child(work: Callable[[], bytes], write_end: int) -> None:
    """Never returns: what follows the fork belongs to the parent alone."""
    try:
        os.setpgid(0, 0)
        for number in _ENDING:
            signal.signal(number, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1) if os.environ.get("PLACER_DEBUG") else (0, 1, 2):
            os.dup2(nothing, stream)
        answer = memoryview(work())
        while answer:
            answer = answer[os.write(write_end, answer) :]
    finally:
        os._exit(0)


def _collect(read_end: int, deadline: float) -> bytes | None:
    """All that is written until the other end closes; None when the deadline comes first."""
    chunks: list[bytes] = []
    poll = select.poll()
    poll.register(read_end, select.POLLIN)
    size = 0
    while size < _MAX_ANSWER:
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            return None
        chunk = os.read(read_end, 1 << 16)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)
        size += len(chunk)
    return b""


def _end(child: int) -> None:
    """End the child's group and take its status, so that sbatch inherits no child; give up on one that cannot die."""
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    for _ in range(100):
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(child, os.WNOHANG) == (0, 0):
                time.sleep(0.002)
                continue
        return


@contextlib.contextmanager
def _ends_with_us(child: int) -> Iterator[None]:
    """Let every signal that ends this process end the child's group first."""

    def end(number: int, _frame: Any) -> None:
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    before = {number: signal.getsignal(number) for number in _ENDING}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
