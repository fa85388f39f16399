"""What an engine is answered that reaches a machine by a command."""

from __future__ import annotations

import errno
import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from drumbeat.model import wire
from drumbeat.model.agent import Enrolment
from drumbeat.model.plan import Plan
from drumbeat.node.host import __main__ as host
from drumbeat.node.host import node_holder, pod_start, server_names, slurm_step
from drumbeat.node.host.gangs import Gangs


@pytest.mark.feature("F10")
def test_transient_shortage_is_returned_and_other_errors_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    request = {"folder": str(tmp_path), "gang": "j.1", "enrolments": {"0": "{}"}}
    number = errno.ENOSPC

    def start(*_: object) -> None:
        raise OSError(number, "it can't be", str(tmp_path))

    monkeypatch.setattr(Gangs, "start", start)
    assert host.start(request) == {"stuck": {}, "lacks": f"it can't be: {tmp_path}"}
    number = errno.EROFS
    assert host.start(request) == {"stuck": {}, "lacks": "", "unusable": f"it can't be: {tmp_path}"}
    number = errno.EACCES
    with pytest.raises(PermissionError):
        host.start(request)


@pytest.mark.feature("F10")
def test_machine_whose_disk_is_read_only_says_so_until_it_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    request = {"folder": str(tmp_path / "gangs" / "new"), "ended": []}
    assert host.look(request)["unusable"] == ""
    flags, asked = os.statvfs(tmp_path), list[object]()

    def read_only(place: object) -> SimpleNamespace:
        asked.append(place)
        return SimpleNamespace(f_flag=flags.f_flag | os.ST_RDONLY)

    monkeypatch.setattr(os, "statvfs", read_only)
    assert host.look({**request, "folder": str(tmp_path / "others")})["unusable"] == (
        f"Read-only file system: {tmp_path}/others"
    )
    assert asked == [str(tmp_path)], "its folder isn't there yet"


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
    assert slurm_step.main() == node_holder.LEFT


FAR = "https://head.example:1"
SAID = (
    f"machine {socket.gethostname()} can't resolve head.example, at which its agents must call the server: nobody "
    f"knows. {server_names.FIX}"
)


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Lets every name be unknown, with the resolver's number for why."""

    def fails_with(number: int) -> None:
        def look_up(*_asked: object, **_more: object) -> None:
            raise socket.gaierror(number, "nobody knows")

        monkeypatch.setattr(socket, "getaddrinfo", look_up)

    for module in (host, pod_start, slurm_step):
        monkeypatch.setattr(module, "RESOLVE_S", 0.0)
    monkeypatch.setattr(server_names, "_PAUSE_S", 0.0)
    return fails_with


@pytest.mark.feature("C4")
def test_no_agent_is_started_where_its_servers_name_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unknown: Callable[[int], None]
):
    request = {"folder": str(tmp_path), "gang": "j.1", "enrolments": {"0": json.dumps({"servers": [FAR]})}}
    started: list[str] = []
    monkeypatch.setattr(Gangs, "start", lambda _, gang, __: started.append(gang))
    unknown(socket.EAI_NONAME)
    with pytest.raises(socket.gaierror) as refused:
        host.start(request)
    assert refused.value.strerror == SAID
    unknown(socket.EAI_AGAIN)
    assert host.start(request) == {"stuck": {}, "lacks": SAID}, "a name server that doesn't answer may come back"
    assert not started
    server_names.require_resolvable([FAR, "https://10.0.0.1:1"], 0.0)
    server_names.require_resolvable([], 0.0)


@pytest.mark.feature("C4")
def test_a_resolver_that_hangs_holds_a_node_up_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch):
    ends = threading.Event()
    monkeypatch.setattr(server_names, "_LAST_ANSWER_S", 0.0)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: ends.wait(60))
    with pytest.raises(socket.gaierror, match=r"can't resolve head\.example, .*: no name server answers") as refused:
        server_names.require_resolvable([FAR], 0.01)
    assert not ends.is_set()
    assert refused.value.errno == socket.EAI_AGAIN
    ends.set()


@pytest.mark.feature("C4")
def test_invalid_host_name_counts_as_unknown(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(server_names, "_PAUSE_S", 0.0)
    with pytest.raises(socket.gaierror, match="parts of more than 63 characters") as refused:
        server_names.require_resolvable([f"https://{'a' * 64}.example:1"], 0.0)
    assert refused.value.errno == socket.EAI_NONAME


@pytest.mark.feature("C4")
def test_an_ip_address_behind_an_unknown_name_is_not_kept_waiting(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(socket, "getaddrinfo", None)
    server_names.require_resolvable([FAR, "https://10.0.0.1:1"], 60.0)


@pytest.mark.feature("C4")
def test_a_pod_and_a_slurm_step_say_that_the_servers_name_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unknown: Callable[[int], None], capsys: pytest.CaptureFixture[str]
):
    plan = Plan("j", "e", "pytorch", 1, 1, "true", ())
    given = tmp_path / "j.1" / "0" / "enrolment.json"
    given.parent.mkdir(parents=True)
    enrolment = wire.dumps(Enrolment("j", 1, 0, (FAR,), "s", "/root", "/c", plan))
    given.write_text(enrolment)
    (tmp_path / "node.json").write_text('{"node": 0, "secret": "s"}')
    (tmp_path / "gang.json").write_text(enrolment)
    unknown(socket.EAI_NONAME)
    monkeypatch.setattr("sys.argv", ["pod_start", str(tmp_path), str(tmp_path / "work"), "/c"])
    with pytest.raises(SystemExit) as ended:
        pod_start.main()
    assert ended.value.code == pod_start.EXIT_NO_SERVER
    assert capsys.readouterr().err == f"{SAID}\n"
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["slurmstep", str(given.parents[1])])
    monkeypatch.setenv("SLURM_PROCID", "0")
    assert slurm_step.main() == node_holder.WONT_STAY
    assert capsys.readouterr().out == f"drumbeat: node 0: {SAID}\n"
