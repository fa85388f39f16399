"""What an engine is answered that reaches a machine by a command."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from drumbeat.host import __main__ as host
from drumbeat.host import node_holder, slurmstep
from drumbeat.host.gangs import Gangs


@pytest.mark.feature("F10")
def test_a_lack_that_passes_is_told_as_one_and_any_other_trouble_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    request = {"folder": str(tmp_path), "gang": "j.1", "enrolments": {"0": "{}"}}
    number = errno.ENOSPC

    def start(*_: object) -> None:
        raise OSError(number, "it can't be", str(tmp_path))

    monkeypatch.setattr(Gangs, "start", start)
    assert host.start(request) == {"stuck": {}, "lacks": f"it can't be: {tmp_path}"}
    number = errno.EACCES
    with pytest.raises(PermissionError):
        host.start(request)


@pytest.mark.feature("C4")
def test_a_slurm_step_whose_node_another_step_holds_leaves_it_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Slurm took a submission twice: the second job of the name is cancelled as soon as it is seen."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(node_holder, "living_agent", lambda _: 7)
    monkeypatch.setattr(Gangs, "start", None)
    monkeypatch.setattr(Gangs, "stop", None)
    given = tmp_path / "j.1" / "0"
    given.mkdir(parents=True)
    (given / "enrolment.json").touch()
    monkeypatch.setattr("sys.argv", ["slurmstep", str(given.parent)])
    monkeypatch.setenv("SLURM_PROCID", "0")
    assert slurmstep.main() == node_holder.LEFT
