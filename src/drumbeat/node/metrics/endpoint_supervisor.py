"""The agent's side of the metrics endpoint: holds its port, starts its process when a rank first calls, ends it.

Port and token are chosen once for the attempt and stored in the node's folder. A started process outlives this agent,
and the next agent adopts it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import socket
import threading
import time
from collections.abc import Callable

from drumbeat.model import wire
from drumbeat.model.agent import Enrolment
from drumbeat.model.programs import METRICS_ENDPOINT
from drumbeat.node.host.own_programs import program
from drumbeat.node.metrics.folder import (
    MetricsFolder,
    end_endpoint,
    exists,
    is_over,
    is_stuck,
    loss_reason,
    sent_offset,
    spool_length,
)
from drumbeat.node.platform import child_processes, locks
from drumbeat.node.platform.request_backoff import Backoff

HOST = "127.0.0.1"
FIRST_SAMPLE_S = 3.0
_FIRST_DRAIN_INTERVAL_S, _DRAIN_INTERVAL_S = 0.002, 0.02
_NO_PROGRESS_S = 60.0
"""How long the end of a round waits without progress for metrics that the server fails to accept, or after the job was
canceled.
"""
_LEAVE_S = 2.0
_BEGUN_S = 10.0
"""A process that has lived this long has answered."""
_BACKLOG = 128


class MetricsSupervisor:
    """The endpoint of one node, seen from its agent. note: writes to the agent's journal."""

    def __init__(self, enrolment: Enrolment, note: Callable[[str], None]) -> None:
        self._enrolment, self._note = enrolment, note
        self._folder = MetricsFolder(enrolment.root)
        self._listener: socket.socket | None = None
        self._wake = -1
        self._is_ending = self._is_canceled = False
        self._supervisor = 0
        self.address = ""
        """The address for MLflow's clients, without the rank; "" = the node takes no metrics."""

    def adopt(self) -> None:
        """Adopts the endpoint of an earlier agent."""
        if exists(self._enrolment.root):
            self.begin()

    def begin(self) -> None:
        """Opens the endpoint. A node that can't have one runs its ranks without. Idempotent."""
        if self._wake >= 0:
            return
        try:
            os.makedirs(self._folder.path, mode=0o700, exist_ok=True)
            self._folder.write("enrolment", wire.to_wire(self._enrolment))
            self._choose()
        except OSError as error:
            self._note(f"this node takes no metrics: {error}")
            return
        self._wake = os.eventfd(0)
        threading.Thread(target=self._run, name="metrics", daemon=True).start()

    def _choose(self) -> None:
        """Reads the attempt's port and token, which the first agent chose. Raises OSError."""
        chosen = self._folder.read("endpoint")
        if not chosen:
            listener = self._bind(0)
            chosen = {"port": listener.getsockname()[1], "token": secrets.token_urlsafe(24)}
            self._folder.write("endpoint", chosen)
        self.address = f"http://{HOST}:{chosen['port']}/{chosen['token']}"

    def _bind(self, port: int) -> socket.socket:
        """Listens at the port. Raises OSError."""
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((HOST, port))
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
        self._listener = listener
        return listener

    # --- the process ----------------------------------------------------------------------------------------------
    def _run(self) -> None:
        """Keeps a process running during the attempt, from the first call on."""
        backoff = Backoff()
        while not self._is_ending:
            if locks.is_held(self._folder.lock):
                self._wait_for_end()
                continue
            try:
                listener = self._listening()
                if self._is_needed(listener) and not self._start(listener):
                    backoff.wait()  # A calling rank would restart it at once; in vain on a full disk.
                else:
                    backoff.reset()
            except OSError as error:
                self._note(f"the metrics endpoint can't be started: {error}")
                backoff.wait()
        if self._listener is not None:
            self._listener.close()

    def _listening(self) -> socket.socket:
        return self._listener or self._bind(self._folder.read("endpoint")["port"])

    def _is_needed(self, listener: socket.socket) -> bool:
        """Waits until a rank calls or the process is needed otherwise."""
        if self._has_unsent():
            return True
        ready, _, _ = select.select([listener, self._wake], [], [])
        if self._wake in ready:
            os.eventfd_read(self._wake)
        return not self._is_ending

    def _start(self, listener: socket.socket) -> bool:
        """Starts the process and waits for its end; returns whether it worked until then."""
        import subprocess

        number = listener.fileno()
        with open(f"{self._folder.log}", "ab") as log:
            child = child_processes.start(
                [*program(METRICS_ENDPOINT), self._folder.path, str(number)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True,
                pass_fds=(number,),
            )  # fmt: skip
        began = time.monotonic()
        code = child_processes.wait(child)
        if not self._is_ending:
            self._note(f"the metrics endpoint ended with {code}")
        return code <= 0 or time.monotonic() - began > _BEGUN_S

    def _wait_for_end(self) -> None:
        """Waits for the end of a process that an earlier agent started."""
        try:
            handle = os.pidfd_open(self._folder.endpoint_pid() or -1)
        except OSError:
            time.sleep(_DRAIN_INTERVAL_S)  # It is starting or ending.
            return
        try:
            ready, _, _ = select.select([handle, self._wake], [], [])
            if self._wake in ready:
                os.eventfd_read(self._wake)
        finally:
            os.close(handle)

    def want(self) -> None:
        """Requests the process's start before any rank calls."""
        if self._wake >= 0:
            os.eventfd_write(self._wake, 1)

    # --- its end --------------------------------------------------------------------------------------------------
    def _has_unsent(self) -> bool:
        return self._unsent_bytes() > 0

    def _unsent_bytes(self) -> int:
        return 0 if is_over(self._folder.sent) else spool_length(self._folder.spool) - sent_offset(self._folder.sent)

    def drain(self) -> str:
        """Waits until the server has all metrics; returns why some are lost, "" = none.

        The wait for an absent server is unlimited, unless the job was canceled.
        """
        if self._wake < 0:
            return ""
        backoff = Backoff(_FIRST_DRAIN_INTERVAL_S, _DRAIN_INTERVAL_S)
        unsent, since = 0, time.monotonic()
        while (now_unsent := self._unsent_bytes()) > 0 and not self._is_ending:
            is_hopeless = self._is_canceled or is_stuck(self._folder.sent)
            if now_unsent != unsent or not is_hopeless:
                unsent, since = now_unsent, time.monotonic()
            elif time.monotonic() - since > _NO_PROGRESS_S:
                late = (
                    f"the server accepted no metrics of this node for {_NO_PROGRESS_S:g} s after the job was canceled"
                )
                return loss_reason(self._folder.sent) or late
            backoff.wait()
        return loss_reason(self._folder.sent)

    def on_cancel(self) -> None:
        """Records that the job was canceled: its end doesn't wait for a server that accepts no metrics."""
        self._is_canceled = True

    def on_running(self, supervisor: int) -> None:
        """Records that ranks run under this supervisor: their resources are sampled. Idempotent."""
        if self._wake < 0 or supervisor == self._supervisor or not self._enrolment.plan.system_metrics:
            return
        self._supervisor = supervisor
        self._folder.set_supervisor(supervisor)
        # The first sample is due then; a short job needs no process for it.
        timer = threading.Timer(FIRST_SAMPLE_S, lambda: self._supervisor == supervisor and self.want())
        timer.daemon = True
        timer.start()

    def on_over(self) -> None:
        """Records that the round's ranks have ended."""
        if self._supervisor:
            self._supervisor = 0
            self._folder.set_supervisor(0)

    def hand_over(self, following: Enrolment) -> None:
        """Has the process go on for the next job on the node, with another token; else ends it."""
        pid = self._folder.endpoint_pid() if self._wake >= 0 else 0
        if not pid or self._has_unsent() or not self._move(pid, following):
            self.end()
            return
        self._is_ending = True
        self.want()

    def _move(self, pid: int, following: Enrolment) -> bool:
        """Returns whether the process works for the next job."""
        new = MetricsFolder(following.root)
        try:
            os.makedirs(new.path, mode=0o700, exist_ok=True)
            new.write("enrolment", wire.to_wire(following))
            new.write("endpoint", {"port": self._folder.read("endpoint")["port"], "token": secrets.token_urlsafe(24)})
            self._folder.write("next", {"root": following.root})
            os.kill(pid, signal.SIGUSR1)
        except (OSError, KeyError):
            return False
        deadline = time.monotonic() + _LEAVE_S
        while new.endpoint_pid() != pid and time.monotonic() < deadline:
            time.sleep(0.002)
        return new.endpoint_pid() == pid

    def end(self) -> None:
        """Ends the process after the last rank."""
        self._is_ending = True
        self.want()
        pid = self._folder.endpoint_pid()
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)
            deadline = time.monotonic() + _LEAVE_S
            while self._folder.endpoint_pid() and time.monotonic() < deadline:
                time.sleep(0.005)
        end_endpoint(self._enrolment.root)
