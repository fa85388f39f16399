"""The process that takes a node's metrics, seen from its agent."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from drumbeat.model.agent import Enrolment
from drumbeat.model.metric_lines import encode_record
from drumbeat.model.metrics import RunRestored, run_id
from drumbeat.model.plan import Plan
from drumbeat.node.metrics import endpoint_supervisor
from drumbeat.node.metrics.endpoint_supervisor import MetricsSupervisor
from drumbeat.node.metrics.folder import STUCK, keep_sent
from drumbeat.node.metrics.spool import Spool


@pytest.mark.feature("M2")
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


def supervised(root: Path) -> MetricsSupervisor:
    """A node whose ranks wrote a line of metrics, of which the server has none."""
    plan = Plan("j", "e", "pytorch", 1, 1, "true", ())
    supervisor = MetricsSupervisor(Enrolment("j", 1, 0, (), "s", str(root), "/c", plan), lambda _: None)
    (root / "metrics" / "state.json" / "in the way").mkdir(parents=True)  # No process sends the line.
    supervisor.begin()
    Spool(str(root / "metrics" / "spool")).append(encode_record(RunRestored(run_id("j"))))
    return supervisor


@pytest.mark.feature("M2")
def test_end_of_a_round_does_not_wait_for_a_server_that_fails_at_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(endpoint_supervisor, "_NO_PROGRESS_S", 0.05)
    supervisor = supervised(tmp_path)
    keep_sent(str(tmp_path / "metrics" / "sent"), 0, STUCK, "the server can't keep metrics of this node: a defect")
    assert supervisor.drain() == "the server can't keep metrics of this node: a defect"
    supervisor.end()


@pytest.mark.feature("M2")
def test_end_of_a_round_waits_for_a_server_that_is_away_until_the_job_is_canceled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(endpoint_supervisor, "_NO_PROGRESS_S", 0.05)
    supervisor, answers = supervised(tmp_path), list[str]()
    waiting = threading.Thread(target=lambda: answers.append(supervisor.drain()), daemon=True)
    waiting.start()
    waiting.join(0.5)
    assert waiting.is_alive()
    supervisor.on_cancel()
    waiting.join(20)
    assert answers == ["the server accepted no metrics of this node for 0.05 s after the job was canceled"]
    supervisor.end()
