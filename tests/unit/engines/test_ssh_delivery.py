"""How the agent comes to a host: the host is this machine's own shell."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from drumbeat.engines.agent_archive import agent_archive
from drumbeat.engines.ssh.login import Login
from drumbeat.engines.ssh.ssh_host import SshReach
from drumbeat.model.errors import EngineError, UnreachableError

pytestmark = pytest.mark.feature("C4")


class Here(SshReach):
    """Its commands are run here."""

    def _run(self, command: str, text: bytes, timeout_s: float) -> subprocess.CompletedProcess[bytes]:
        shell = ["/bin/sh", "-c", command]
        return subprocess.run(shell, input=text, capture_output=True, timeout=timeout_s, check=False)


def test_old_partial_agent_files_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    agents = tmp_path / "node s" / "agents"
    agents.mkdir(parents=True)
    names = ["agent-1.pyz", "agent-1.pyz.7", "agent-2.pyz.8"]
    for name in names:
        (agents / name).touch()
    for name in names[:2]:
        os.utime(agents / name, (0, 0))
    Here(Login("h"), "python3", "~/node s")._deliver()
    assert sorted(path.name for path in agents.iterdir()) == sorted(
        ["agent-1.pyz", "agent-2.pyz.8", agent_archive().name]
    )
    assert (agents / agent_archive().name).read_bytes() == agent_archive().content


@pytest.mark.parametrize("left", [None, 0, 1000])
def test_an_agent_s_file_that_a_power_failure_has_emptied_is_brought_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int | None
):
    monkeypatch.setenv("HOME", str(tmp_path))
    place = tmp_path / "node s" / "agents" / agent_archive().name
    if left is not None:
        place.parent.mkdir(parents=True)
        place.write_bytes(agent_archive().content[:left])
    host = Here(Login("h"), sys.executable, "~/node s")
    assert host.ask("about", {})["python"]
    assert place.read_bytes() == agent_archive().content


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("mkdir: cannot create directory '/d': Read-only file system", UnreachableError),
        ("cat: write error: No space left on device", UnreachableError),
        ("mkdir: cannot create directory '/d': Permission denied", EngineError),
    ],
)
def test_disk_that_takes_no_agent_is_the_hosts_fault(said: str, error: type[Exception]):
    class Full(Here):
        def _run(self, command: str, text: bytes, timeout_s: float) -> subprocess.CompletedProcess[bytes]:
            return super()._run(f"echo {shlex.quote(said)} >&2; exit 1", text, timeout_s)

    with pytest.raises(error, match=said[-20:]):
        Full(Login("h"), "python3", "/d")._deliver()
