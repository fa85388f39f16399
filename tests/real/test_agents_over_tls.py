"""Real agents that call by TLS: a job runs through, and its secret shows nowhere."""

from __future__ import annotations

import contextlib
import stat
from pathlib import Path

import psutil
import pytest

from drumbeat.engines.local import LocalEngine
from drumbeat.ports.engines import node_secret
from drumbeat.server.access.agent_listeners import AgentListenerRules, TlsAgentListeners
from drumbeat.server.control import Control, Setting
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.wiring import SystemClock
from tests.faces.api_house import client_of, served
from tests.real.house import contents, until
from tests.support.memory_store import MemoryStore

FAR = "127.0.0.2"


class FarEngine(LocalEngine):
    """Its agents call as those on other hosts do."""

    def server_addresses(self) -> list[str]:
        return [FAR]


@pytest.mark.feature("X1", "X4", "X6")
def test_a_job_runs_over_tls_and_its_secret_shows_nowhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    clock, engine = SystemClock(), FarEngine(tmp_path / "nodes", tmp_path / "jobs")
    control = Control(Setting(MemoryStore(), FolderArtifacts(tmp_path), {"local": engine}, clock, b"k" * 32))
    control.addresses.listeners = listeners = TlsAgentListeners(
        AgentListenerRules(tmp_path / "ca.pem", tmp_path / "doors.json"), clock
    )
    control.start()
    go = tmp_path / "go"
    document = {
        "name": "far", "command": f"env; until test -e {go}; do sleep 0.05; done", "resources": {"instance_count": 2},
        "drumbeat": {"environment": "current", "max_retries": 0},
    }  # fmt: skip
    secret = node_secret(control.secrets.of("far", 1), 0)
    try:
        with served(control, tmp_path, listeners=listeners) as room, client_of(room) as http:
            assert http.post("/api/v1/jobs", json={"document": document}).status_code == 201
            state = lambda: http.get("/api/v1/jobs/far").json()["state"]  # noqa: E731
            until(lambda: state() in ("running", "failed"))
            shown = [words for one in psutil.process_iter() for words in _shown(one) if str(tmp_path) in words]
            assert len(shown) >= 2, "agents and supervisors were looked at"
            assert not [words for words in shown if secret in words]
            _look_through(tmp_path, secret)
            go.touch()
            until(lambda: state() not in ("running", "stopping", "finalizing"))
            assert state() == "completed", http.get("/api/v1/jobs/far/story").text
            told = [http.get(f"/api/v1/jobs/far{rest}").text for rest in ("", "/story", "/logs")]
            assert secret not in "".join(told)
            until(lambda: not control.has_unfinished_work())
        _look_through(tmp_path, secret)
        assert secret not in caplog.text
    finally:
        control.stop()
        listeners.close()
        engine.sweep(set[str])


def _shown(process: psutil.Process) -> list[str]:
    """Its arguments and its environment."""
    with contextlib.suppress(psutil.Error):
        return [" ".join(process.cmdline()), " ".join(process.environ().values())]
    return []


def _look_through(folder: Path, secret: str) -> None:
    """It stands in files that only their owner reads, and in none that is made for users."""
    for file, content in contents(folder):
        if secret.encode() in content:
            assert "log" not in file.name, file
            assert "journal" not in file.name, file
            with contextlib.suppress(FileNotFoundError):
                assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
