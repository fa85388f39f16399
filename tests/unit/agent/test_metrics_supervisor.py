"""The process that takes a node's metrics, seen from its agent."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from drumbeat.agent.metrics import endpoint_supervisor
from drumbeat.agent.metrics.endpoint_supervisor import MetricsSupervisor
from drumbeat.protocol.agent import Enrolment
from drumbeat.protocol.plan import Plan


@pytest.mark.feature("M2", "F10")
def test_process_that_fails_at_once_is_started_again_after_a_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pauses, notes = list[float](), list[str]()

    class Pauses(endpoint_supervisor.Backoff):
        def wait(self) -> None:
            pauses.append(self.next_s())

    monkeypatch.setattr(endpoint_supervisor, "Backoff", Pauses)
    (tmp_path / "metrics" / "state.json" / "in the way").mkdir(parents=True)  # As a disk that takes nothing.
    plan = Plan("j", "e", "pytorch", 1, 1, "true", ())
    supervisor = MetricsSupervisor(Enrolment("j", 1, 0, (), "s", str(tmp_path), "/c", plan), notes.append)
    supervisor.begin()
    address = urlsplit(supervisor.address)
    with socket.create_connection((address.hostname, address.port)):
        deadline = time.monotonic() + 30
        while len(notes) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    supervisor.end()
    assert set(notes) == {"the metrics endpoint ended with 1"}
    assert pauses
