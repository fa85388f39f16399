"""What is said on a full disk, of ranks that couldn't write down why they ended, and of the node."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from drumbeat.core.diagnosis.blame import verdict
from drumbeat.model.agent import Enrolment, NodeMessage, RankExit
from drumbeat.model.plan import Plan
from drumbeat.node.agent.attempt_mounts import AttemptMounts
from drumbeat.node.inputs.mounting.mounts import Mounts
from drumbeat.node.logs.failure_excerpt import failure_excerpt


@pytest.mark.feature("F10")
def test_a_full_disk_is_named_though_the_rank_could_not_say_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log = tmp_path / "0.log"
    log.write_text("epoch 1\n")
    assert failure_excerpt(str(log)) == "epoch 1"
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_bavail=3, f_frsize=4096))
    found = verdict([(0, RankExit(0, 1, None, 1.0, 0, tail=failure_excerpt(str(log))))])
    assert "No space left on device" in found.sentence
    assert "Free space" in found.advice


@pytest.mark.feature("F10")
def test_message_that_the_full_disk_refused_is_stored_once_there_is_space(tmp_path: Path):
    root, notes, news = tmp_path / "root", list[str](), list[int]()
    plan = Plan("j", "e", "pytorch", 1, 1, "true", ())
    beyond = AttemptMounts(Enrolment("j", 1, 0, (), "s", str(root), "/c", plan), notes.append, lambda: news.append(1))
    message = NodeMessage("data", "it is mounted")
    beyond.remember(message)
    assert (len(notes), news, beyond.messages()) == (1, [], ())
    assert notes[0].startswith("it is mounted: not remembered: ")
    root.mkdir()
    for _ in range(2):
        beyond.remember(message)
    assert (len(notes), news, beyond.messages()) == (1, [1], (message,))


@pytest.mark.feature("F10")
def test_a_mount_is_looked_after_by_the_next_agent_also_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    root = tmp_path / "root"
    folder = root / "mounts" / "data"
    (folder / "enrolment.json.part").mkdir(parents=True)  # Nothing can be written in its place.
    (folder / "state.json").write_text('{"is_mounted": true, "pid": 1, "born": "then"}')
    looked_after = list[str]()
    monkeypatch.setattr(Mounts, "_look_after", lambda _self, folder: looked_after.append(folder))
    plan = Plan("j", "e", "pytorch", 1, 1, "true", ())
    enrolment = Enrolment("j", 1, 0, (), "s", str(root), "/c", plan)
    Mounts(enrolment, print, print).adopt()
    assert looked_after == [str(folder)]
