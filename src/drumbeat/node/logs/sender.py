"""Sends the logs of one round while they grow: bytes with their offsets, so that none is lost or duplicated.

The server says how much it has, and sending resumes there: after an interruption, a new agent, or a loss on the server.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from drumbeat.model.errors import DEFECT, DrumbeatError, StaleError, UnreachableError
from drumbeat.model.failpoints import failpoint
from drumbeat.model.sparse_files import drop_beginning
from drumbeat.node.platform.agent_log import Journal
from drumbeat.node.platform.request_backoff import Backoff
from drumbeat.node.platform.server_link import ServerLink

PIECE = 1 << 20
_MARK_BYTES = 64
_QUICKEST_S, _SLOWEST_S = 0.025, 1.0
_FAILING_S = 60.0
"""How long the end of a canceled job waits for logs that the server fails to accept."""


def pause_s(world_size: int) -> float:
    """The interval between two checks of the logs: a server receives a thousand pieces a second
    from a job of any size.
    """
    return min(max(_QUICKEST_S, world_size / 1000), _SLOWEST_S)


class GrowingLog:
    """A log that is being sent to the server. `_sent` is an offset in the server's log, which is `_shift` ahead of this
    one.

    A command can truncate its own log (`echo x > /dev/stderr` does, because stderr is a file): the text after that is
    appended to the server's log. Text that was truncated before it was read is lost. keep: bytes that stay on the node
    after they were sent; 0 = all.
    """

    def __init__(self, path: str, name: str, keep: int = 0) -> None:
        self._path, self._name, self._keep = path, name, keep
        self._dropped = 0
        self._file: int | None = None
        self._sent: int | None = None
        self._shift = 0
        self._mark, self._mark_at = b"", 0
        self._there = 0
        self._is_lost = False

    def send_piece(self, link: ServerLink) -> int:
        """Sends the next piece, if there is one; returns its size, 0 = the server has everything."""
        if self._is_lost:
            return 0
        if self._sent is None:
            self._meet(link)
        data = self._next_piece()
        if not data:
            return 0
        had, offset = self._at, self._at - self._shift
        self._sent = link.put(self._name, had, data)
        if self._sent == had:
            raise UnreachableError(f"the server accepts no more of {self._name}")
        self._remember(data, offset)
        self._drop_sent()
        failpoint("agent.log_sent")
        return self._there

    def _drop_sent(self) -> None:
        """Gives back the space of what was sent long ago."""
        surplus = self._at - self._shift - self._keep - self._dropped
        if not self._keep or surplus < max(PIECE, self._keep // 8):
            return
        self._dropped += surplus
        with contextlib.suppress(OSError):  # The file system has no holes, or the file isn't this user's.
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                drop_beginning(descriptor, self._dropped)
            finally:
                os.close(descriptor)

    def give_up(self, link: ServerLink, error: OSError) -> None:
        """Marks the log as completely sent, and writes the reason of its early end into the server's log."""
        why = error.strerror or str(error)
        message = f"drumbeat: the rest of this log is lost: its node can't read {self._path} ({why})\n"
        link.put(self._name, link.put(self._name, 0, b""), message.encode())
        self._is_lost = True

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # An unreachable share fails again.
                os.close(self._file)
            self._file = None

    @property
    def _at(self) -> int:
        return self._sent or 0

    def _meet(self, link: ServerLink) -> None:
        sent = link.put(self._name, 0, b"")
        # The server has more than the file: the log was truncated under an earlier agent, or the disk was lost. The
        # file's text was sent.
        self._shift = max(0, sent - self._size())
        self._sent = sent

    def _next_piece(self) -> bytes:
        # If the server has less than was truncated here, the gap can't be filled: the remainder follows it.
        self._shift = min(self._shift, self._at)
        piece = self._read()
        if piece is None:
            self._shift = self._at
            piece = self._read()
        return piece or b""

    def _read(self) -> bytes | None:
        """The next bytes; None = the file was truncated, and may have grown past the offset since."""
        offset, size = self._at - self._shift, self._size()
        if self._file is None or size <= offset:
            return b"" if size == offset else None
        mark = self._mark if self._mark_at == offset else b""
        self._there = min(PIECE, size - offset)
        data = os.pread(self._file, len(mark) + self._there, offset - len(mark))
        if not data.startswith(mark):
            return None
        piece = data[len(mark) :]
        if size - offset <= PIECE:
            return piece
        # Not in the middle of a line: its start would look like an unfinished line of its rank.
        return piece[: piece.rfind(b"\n") + 1] or piece

    def _remember(self, data: bytes, offset: int) -> None:
        """Keeps the bytes just before the offset where sending resumes, to recognize it."""
        taken = self._at - self._shift - offset
        is_inside = 0 < taken <= len(data)
        self._mark = data[max(0, taken - _MARK_BYTES) : taken] if is_inside else b""
        self._mark_at = offset + taken

    def _size(self) -> int:
        if self._file is None:
            with contextlib.suppress(FileNotFoundError):
                self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        return os.fstat(self._file).st_size if self._file is not None else 0


class LogSender:
    """The thread that sends the logs of a round; `done` is called once the server has everything that was ever written.

    After the job was canceled, a log that the server fails to accept for a minute is given up; an absent server is
    waited for.
    """

    def __init__(
        self, logs: list[GrowingLog], link: ServerLink, journal: Journal, done: Callable[[], None], *, pause_s: float
    ) -> None:
        self._logs, self._link, self._journal, self._done, self._pause_s = logs, link, journal, done, pause_s
        self._ended, self._canceled = threading.Event(), threading.Event()
        self._failing_since: float | None = None
        """When the server first failed to accept a log of the canceled job, without a pass over all logs without
        failure since.
        """
        self._given_up: list[GrowingLog] = []
        self.loss = ""
        """The message for users about logs that were given up, "" = none."""
        self._setbacks = LogRetries(pause_s)
        threading.Thread(target=self._run, name="logs", daemon=True).start()

    def finish(self) -> None:
        """Records that the logs are complete."""
        self._ended.set()

    def on_cancel(self) -> None:
        """Records that the job was canceled."""
        self._canceled.set()

    def _run(self) -> None:
        backoff = Backoff()
        while True:
            # Read before the files are: this pass sees everything that was written before the end.
            was_ended = self._ended.is_set()
            try:
                longest = max((self._send(log, was_ended=was_ended) for log in self._logs), default=0)
            except StaleError:
                return
            except DrumbeatError as error:
                self._journal.note(f"logs wait: {error}")
                backoff.wait()
                continue
            backoff.reset()
            self._failing_since = None
            if was_ended and not longest:
                break
            if longest < PIECE and self._ended.wait(self._pause_s) and self._setbacks:
                time.sleep(self._pause_s)
        self._close()
        self._done()

    def _send(self, log: GrowingLog, *, was_ended: bool) -> int:
        """Sends one piece, so that a loud rank doesn't delay a quiet one; returns its size, at least 1 for an unread
        one.
        """
        if log in self._given_up:
            return 0
        if self._setbacks.has_to_wait(log):
            return 1
        try:
            size = log.send_piece(self._link)
        except OSError as error:
            return self._not_read(log, error, was_ended=was_ended)
        except DrumbeatError as error:
            if error.code != DEFECT or not (was_ended and self._canceled.is_set()):
                raise
            return self._not_taken(log, error)
        self._setbacks.over(log)
        return size

    def _not_read(self, log: GrowingLog, error: OSError, *, was_ended: bool) -> int:
        if log not in self._setbacks:
            self._journal.note(f"a log waits: {error}")
        if not self._setbacks.met(log, error, was_ended=was_ended):
            return 1
        log.give_up(self._link, error)
        self._setbacks.over(log)
        self._journal.note(f"the rest of a log is lost: {error}")
        return 0

    def _not_taken(self, log: GrowingLog, error: DrumbeatError) -> int:
        """Gives up a log that the server has failed to accept for long enough; before that, raises the error."""
        now = time.monotonic()
        self._failing_since = now if self._failing_since is None else self._failing_since
        if now - self._failing_since < _FAILING_S:
            raise error
        self._given_up.append(log)
        which = "the rest of a log" if len(self._given_up) == 1 else f"the rest of {len(self._given_up)} logs"
        self.loss = f"the server can't keep {which} of this node: {error}"
        self._journal.note(self.loss)
        return 0

    def _close(self) -> None:
        for log in self._logs:
            log.close()


# --- logs that can't be read: each is tried again after its own pause, and given up after `TRIES` ---

TRIES = 24
"""How often an unreadable log is tried after the end of its round, which takes a minute or two."""
_TRANSIENT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors that aren't the log's: the machine lacks the resources to read it now."""


@dataclass
class _Retry:
    backoff: Backoff
    again_at: float = 0.0
    in_vain: int = 0


class LogRetries:
    """Times the retries of a round's logs. first_s: the pause before a first retry."""

    def __init__(self, first_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self._first_s, self._now = first_s, now
        self._retries: dict[Hashable, _Retry] = {}

    def __bool__(self) -> bool:
        return bool(self._retries)

    def __contains__(self, log: Hashable) -> bool:
        return log in self._retries

    def has_to_wait(self, log: Hashable) -> bool:
        """Whether the log's next try isn't due yet."""
        return log in self._retries and self._now() < self._retries[log].again_at

    def over(self, log: Hashable) -> None:
        """Forgets a log that is readable again, or given up."""
        self._retries.pop(log, None)

    def met(self, log: Hashable, error: OSError, *, was_ended: bool) -> bool:
        """Counts a failed read; returns whether the log is lost, which it never is while its ranks run."""
        if log not in self._retries:
            self._retries[log] = _Retry(Backoff(self._first_s, min(200 * self._first_s, 5.0)))
        setback = self._retries[log]
        setback.in_vain += was_ended and error.errno not in _TRANSIENT
        setback.again_at = self._now() + setback.backoff.next_s()
        return setback.in_vain >= TRIES
