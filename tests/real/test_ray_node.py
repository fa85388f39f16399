"""A node of a gang on a machine of a Ray cluster, without Ray: the part that its actor has started as a daemon."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from drumbeat.engines.agent_archive import agent_archive
from drumbeat.engines.enrolment import enrolment
from drumbeat.engines.ray import gang_program
from drumbeat.host.gangs import living_agent
from drumbeat.testing.engine_contract import a_gang

from .guard import guarded
from .house import until

pytestmark = pytest.mark.feature("C4")


def test_node_is_started_once_outlives_its_parent_and_is_ended_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("RAY_ADDRESS", "of the cluster")
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.chdir(tmp_path)
    file = tmp_path / gang_program.AGENT_FILE
    file.write_bytes(agent_archive().content)
    command = [sys.executable, "-I", str(file), "drumbeat.host.ray_node", "g.1", "0"]
    text = enrolment(a_gang(), 0, root="", checkpoints="/kept")
    with guarded(tmp_path):
        request = {"enrolment": text, "gpus": [], "address": "10.1.1.1"}
        folder = Path(gang_program.answer_of(command, request)["folder"])
        agent = living_agent(folder)
        assert agent is not None
        assert gang_program.answer_of(command, request) == {"folder": str(folder)}
        assert living_agent(folder) == agent, "another actor that finds it takes it over"
        assert b"RAY_ADDRESS" not in Path(f"/proc/{agent}/environ").read_bytes()
        assert '"address":"10.1.1.1"' in (folder / "enrolment.json").read_text().replace(" ", "")
        assert gang_program.end_node("g.1") == ""
        until(lambda: not folder.exists(), 20, "the end")
        assert living_agent(folder) is None


def test_machine_that_cant_start_a_node_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    file = tmp_path / gang_program.AGENT_FILE
    file.write_bytes(agent_archive().content)
    monkeypatch.setattr(tempfile, "tempdir", None)
    own = gang_program.own_folder()
    own.mkdir(0o755)
    command = [sys.executable, "-I", str(file), "drumbeat.host.ray_node", "g.1", "0"]
    request = {"enrolment": enrolment(a_gang(), 0, root="", checkpoints="/kept"), "gpus": [], "address": ""}
    assert gang_program.answer_of(command, request) == {
        "error": f"it isn't private: remove it, or `chmod 700` it if it's yours: {own}"
    }
    assert gang_program.answer_of(["/no/python"], {}) == {"error": "[Errno 2] No such file or directory: '/no/python'"}
