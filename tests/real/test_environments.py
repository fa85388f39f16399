"""Environments as nodes really make them, from wheels in a folder, and the preparation of a job."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from drumbeat.model.agent import AgentStatus, Order, Phase
from drumbeat.model.api.jobs import JobView
from drumbeat.model.plan import PythonEnvironment
from drumbeat.model.python_fingerprint import read
from tests.support.agent_gang import AgentGang, mentioning
from tools.kept_programs import UV

from .guard import guarded
from .house import House, until
from .started import provide
from .wheels import broken_source, wheel

NOWHERE = "http://127.0.0.1:9/simple"
"""pip's own setting on a node: environments are made with pip there, also where the machine has a uv."""
TELLS = "python -c 'import os, sys, tiny; print(tiny.version, sys.prefix == os.environ[\"VIRTUAL_ENV\"])'"


def settings_of_tools() -> list[str]:
    return [name for name in os.environ if name.startswith(("PIP_", "UV_"))]


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with `tiny` 1.0 and 2.0; the node's cache is empty, and pip knows of nothing else, nor does uv serve."""
    folder = tmp_path / "wheels"
    for version in ("1.0", "2.0"):
        wheel(folder, "tiny", version)
    monkeypatch.setenv("DRUMBEAT_CACHE", str(tmp_path / "cache"))
    for name in settings_of_tools():
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", NOWHERE)
    with guarded(tmp_path):
        yield folder


@pytest.fixture
def uv(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comes after `wheels`: nothing is set up for pip, and a uv is on PATH."""
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    monkeypatch.setenv("PATH", f"{provide(UV).parent}:{os.environ['PATH']}")


def mine(wheels: Path, *wanted: str, **more: object) -> PythonEnvironment:
    lines = ("--no-index", f"--find-links {wheels}", *wanted)
    numbers = tuple(range(5, 5 + len(lines)))
    return PythonEnvironment("k" + "".join(wanted), "mine", "", lines, source="env.yml", lines=numbers, **more)


@contextlib.contextmanager
def a_page_that_waits() -> Iterator[tuple[str, threading.Event]]:
    """The address of a page without links, and what it waits for."""
    may_come = threading.Event()

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert may_come.wait(200)
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", may_come
        finally:
            may_come.set()
            server.shutdown()


def gang(folder: Path, command: str = "true", **plan: object) -> AgentGang:
    folder.mkdir(exist_ok=True)
    return AgentGang(folder, command, **plan)


def ready(there: AgentGang, *nodes: int) -> list[AgentStatus]:
    """What the nodes say when they are ready, or can't be."""
    for node in nodes or range(there.nodes):
        if node not in there.agents:
            there.start(node)
    there.order(Order.PREPARE)

    def all_said() -> bool:
        said = [there.server.status(node) for node in range(there.nodes)]
        return all(one is not None and (one.error or one.phase is Phase.READY) for one in said)

    there.server.wait_for(all_said, 120)
    return [there.status(node) for node in range(there.nodes)]


def all_but_one_wait(there: AgentGang) -> None:
    """All nodes are to make one environment, and those that don't make it have said so."""
    for node in range(there.nodes):
        there.start(node)
    there.order(Order.PREPARE)
    heard, waits = there.server.said, "environment mine: another job on this machine is building it"

    def wait() -> int:
        return sum(any(one.detail.startswith(waits) for one in said) for said in heard.values())

    there.server.wait_for(lambda: wait() == there.nodes - 1, 180)


def to_end(there: AgentGang) -> None:
    """The ranks of its first round have run."""
    ready(there)
    there.run()
    there.reach(Phase.ENDED)


def trouble(there: AgentGang) -> str:
    (said,) = ready(there)
    return said.error


def own_log(there: AgentGang, node: int = 0) -> str:
    return there.server.log(-1, node=node).decode()


# --- made once ----------------------------------------------------------------------------------------------------
@pytest.mark.feature("E1", "E4")
def test_ranks_run_in_the_environment_that_their_node_has_made_and_the_next_job_finds_it(
    tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PYTHONPATH", "/somewhere/else")
    base = "python -c 'import tiny; print(tiny.__file__)'"
    command = f"{TELLS}; {base}; command -v python; echo ${{PYTHONPATH-none}}"
    for n, is_new in ((1, True), (2, False)):
        with gang(tmp_path / f"g{n}", command, python=mine(wheels, "tiny==1.0")) as there:
            to_end(there)
            version, path, python, modules = there.server.log(0).decode().splitlines()
            assert version == "1.0 True"
            assert path.startswith(f"{tmp_path}/cache/environments/")
            assert python == f"{tmp_path}/g{n}/node0/python/bin/python"
            assert modules == f"{tmp_path}/g{n}/node0/modules"
            assert ("Successfully installed tiny-1.0" in own_log(there)) is is_new
            assert there.leave() == [0]
    assert mentioning(f"{tmp_path}/g") == []


def content(folder: Path) -> dict[str, bytes]:
    """Every file of the one environment in a cache, but what Python itself caches beside modules."""
    (made,) = folder.glob("environments/*/made")
    files = [path for path in made.parent.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {str(path): path.read_bytes() for path in files}


@pytest.mark.feature("E1")
def test_what_a_job_installs_is_its_own_and_leaves_the_environment_as_it_was(tmp_path: Path, wheels: Path, uv: None):
    entry = "[console_scripts]\nsays = own:says\n"
    own = "import tiny, sys\ndef says(): print('own', tiny.version, sys.argv[1])\n"
    wheel(wheels, "own", "3.0", "tiny", files={"own.py": own, "own-3.0.dist-info/entry_points.txt": entry})
    wheel(wheels, "third", "1.0")
    made, options = mine(wheels, "tiny==1.0"), f"-q --no-index --find-links {wheels}"
    prepare = "; ".join([
        "set -e", f"pip install {options} own", f"python -m pip install {options} -U tiny",
        f"uv pip install {options} third", "pip uninstall -q -y pip",
    ])  # fmt: skip
    with gang(tmp_path / "g1", python=made) as there:
        ready(there)
    before = content(tmp_path / "cache")
    with gang(tmp_path / "g2", f"says $RANK; {TELLS}", per_node=2, python=made, prepare=prepare) as there:
        to_end(there)
        logs = [there.server.log(rank).decode() for rank in range(2)]
        assert logs == [f"own 2.0 {rank}\n2.0 True\n" for rank in range(2)], own_log(there)
    assert content(tmp_path / "cache") == before
    with gang(tmp_path / "g3", f"{TELLS}; command -v says || echo none", python=made) as there:
        to_end(there)
        assert there.server.log(0) == b"1.0 True\nnone\n"
        assert "has changed since it was built" not in own_log(there)


@pytest.mark.feature("E1")
@pytest.mark.thorough
def test_constraints_limit_what_is_installed(tmp_path: Path, wheels: Path):
    with gang(
        tmp_path / "g", TELLS, python=mine(wheels, "--constraint tiny<2", "tiny", "--constraint absent==7")
    ) as there:
        to_end(there)
        assert there.server.log(0).decode() == "1.0 True\n"
    assert not [*(tmp_path / "cache" / "environments").glob("*.constraints")]


@pytest.mark.timeout(900)
@pytest.mark.feature("E1")
@pytest.mark.thorough
def test_agents_that_ask_at_once_have_it_made_once(tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "250")
    with (
        a_page_that_waits() as (page, may_come),
        gang(tmp_path / "g", nodes=10, python=mine(wheels, "tiny", f"--find-links {page}")) as there,
    ):
        all_but_one_wait(there)
        may_come.set()
        said = ready(there)
        assert [one.error for one in said] == [""] * 10
        logs = [own_log(there, node) for node in range(10)]
        assert sum("building environment mine" in log for log in logs) == 1
        assert len({one.member.environment for one in said}) == 1
        assert len(list((tmp_path / "cache" / "environments").glob("*.pins/*"))) == 10
    assert len(list((tmp_path / "cache" / "environments").glob("*/made"))) == 1


@pytest.mark.timeout(900)
@pytest.mark.feature("E4")
@pytest.mark.thorough
def test_those_who_waited_for_one_that_failed_fail_with_it(
    tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "250")
    with (
        a_page_that_waits() as (page, may_come),
        gang(tmp_path / "g", nodes=3, python=mine(wheels, "tiny==9", f"--find-links {page}")) as there,
    ):
        all_but_one_wait(there)
        may_come.set()
        errors = {one.error.split(". ")[0] for one in ready(there)}
        assert errors == {"environment mine: pip found no version of tiny==9; available: 1.0, 2.0 (env.yml, line 7)"}
        logs = [own_log(there, node) for node in range(3)]
        assert all("ERROR: No matching distribution found for tiny==9" in log for log in logs)
        assert sum("building environment mine" in log and "another job" not in log for log in logs) == 1


@pytest.mark.timeout(900)
@pytest.mark.feature("E1")
@pytest.mark.thorough
@pytest.mark.parametrize("point", ["environment.begun", "environment.installed", "environment.made"])
def test_an_agent_killed_on_the_way_leaves_nothing_half(
    tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch, point: str
):
    with gang(tmp_path / "g", TELLS, python=mine(wheels, "tiny")) as there:
        monkeypatch.setenv("DRUMBEAT_FAULT", point)
        there.start()
        there.order(Order.PREPARE)
        assert there.agents.pop(0).wait(180) == -signal.SIGKILL
        monkeypatch.delenv("DRUMBEAT_FAULT")
        to_end(there)
        assert there.server.log(0) == b"2.0 True\n"


@pytest.mark.timeout(900)
@pytest.mark.feature("E1")
def test_what_a_killed_agent_was_installing_ends_with_it(tmp_path: Path, wheels: Path):
    broken_source(wheels, "slow", "1.0", "import time; print('building', flush=True); time.sleep(600)")
    with gang(tmp_path / "g", python=mine(wheels, "slow")) as there:
        there.start()
        there.order(Order.PREPARE)
        there.server.wait_for(lambda: at_work(tmp_path / "cache", "pip"), 180)
        there.kill_agent()
        until(lambda: not at_work(tmp_path / "cache", "pip"), what="the end of pip")


def at_work(folder: Path, word: str) -> list[int]:
    """Processes with this folder and this word in their command lines."""
    found = [(pid, _words(pid)) for pid in mentioning(str(folder))]
    return [pid for pid, words in found if str(folder) in words and f"\0{word}\0" in words]


def _words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


@pytest.mark.feature("E1")
@pytest.mark.thorough
def test_an_environment_whose_interpreter_is_gone_is_made_again(tmp_path: Path, wheels: Path):
    for n in (1, 2):
        with gang(tmp_path / f"g{n}", TELLS, python=mine(wheels, "tiny")) as there:
            to_end(there)
            assert there.server.log(0) == b"2.0 True\n"
        (python,) = (tmp_path / "cache" / "environments").glob("*/bin/python")
        python.unlink()


# --- what can't be made -------------------------------------------------------------------------------------------
@pytest.mark.feature("E4")
@pytest.mark.thorough
def test_a_package_that_does_not_build_is_named_with_its_own_error(tmp_path: Path, wheels: Path):
    broken_source(wheels, "fast", "0.1", "raise RuntimeError('fast.h: no such file')")
    with gang(tmp_path / "g", python=mine(wheels, "tiny", "fast")) as there:
        said = trouble(there)
        assert "fast.h: no such file" in said
        assert "(env.yml, line 8)" in said
        assert "fast.h: no such file" in own_log(there)


@pytest.mark.feature("E1")
def test_a_python_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path, wheels: Path):
    wanted = PythonEnvironment("k", "mine", "3.99", ("tiny",))
    with gang(tmp_path / "g", python=wanted) as there:
        own = ".".join(map(str, sys.version_info[:3]))
        said = trouble(there)
        assert said.startswith("environment mine requires Python 3.99, and this node has ")
        assert own in said


@pytest.mark.feature("E1")
def test_packages_of_condas_are_refused_where_there_is_none(
    tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with gang(tmp_path / "g", python=mine(wheels, "tiny", conda=("ffmpeg=6",))) as there:
        assert "conda packages (ffmpeg=6), and this node has no micromamba, mamba or conda" in trouble(there)


@pytest.mark.feature("E1")
def test_all_of_it_is_made_by_a_conda_that_is_there(tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch):
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "micromamba").write_text(
        f'#!/bin/sh\necho "solving: $*"\nwhile [ "$1" != --prefix ]; do shift; done\n{sys.executable} -m venv "$2"\n'
    )
    (tools / "micromamba").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    wanted = mine(wheels, "tiny", conda=("ffmpeg=6",), channels=("conda-forge",))
    with gang(tmp_path / "g", TELLS, python=wanted) as there:
        to_end(there)
        assert there.server.log(0) == b"2.0 True\n"
        assert "--override-channels --channel conda-forge python pip ffmpeg=6" in own_log(there)


@pytest.mark.feature("E1", "E4")
def test_uv_makes_it_with_a_pip_and_says_what_is_wrong(tmp_path: Path, wheels: Path, uv: None):
    with gang(tmp_path / "g1", f"{TELLS} && python -m pip --version", python=mine(wheels, "tiny")) as there:
        to_end(there)
        assert there.server.log(0).startswith(b"2.0 True\npip ")
        assert "with uv" in own_log(there)
    with gang(tmp_path / "g2", python=mine(wheels, "tiny==9")) as there:
        said = trouble(there)
        assert said.startswith("environment mine: uv says: No solution found when resolving dependencies: ")
        assert "(env.yml, line 7)" in said


# --- nodes that differ --------------------------------------------------------------------------------------------
@pytest.mark.timeout(900)
@pytest.mark.feature("E3")
@pytest.mark.thorough
def test_nodes_tell_what_their_environments_are_made_of(tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch):
    (wheels / "tiny-2.0-py3-none-any.whl").rename(wheels / "later")
    with gang(tmp_path / "g", nodes=2, python=mine(wheels, "tiny")) as there:
        there.start(0)
        there.order(Order.PREPARE)
        there.server.wait_for(lambda: there.server.status(0) and there.status(0).phase is Phase.READY, 180)
        (wheels / "later").rename(wheels / "tiny-2.0-py3-none-any.whl")
        monkeypatch.setenv("DRUMBEAT_CACHE", str(tmp_path / "cache of another machine"))
        told = [read(one.member.environment) for one in ready(there, 1)]
    assert [one.versions["tiny"] for one in told if one] == ["1.0", "2.0"]


@pytest.mark.feature("E3")
def test_nodes_without_an_environment_of_their_own_tell_the_python_of_their_path(tmp_path: Path):
    with gang(tmp_path / "g", nodes=2, path_first=(str(Path(sys.executable).parent),)) as there:
        told = [read(one.member.environment) for one in ready(there)]
    assert [(one.python, "pytest" in one.versions or one.has_more) for one in told if one] == [
        (".".join(map(str, sys.version_info[:3])), True)
    ] * 2
    assert len({one.digest for one in told if one}) == 1


# --- preparation --------------------------------------------------------------------------------------------------
SHOWS = (
    "env | cut -d= -f1 | sort | tr '\\n' ' ' > names; echo preparing $NODE_RANK in $(basename $PWD); echo x >> times"
)


@pytest.mark.feature("L12")
def test_a_preparation_runs_once_on_each_node_in_what_its_ranks_run_in(tmp_path: Path, wheels: Path):
    command = "cat times; cat names; test $DRUMBEAT_ROUND = 2"
    made = mine(wheels, "tiny")
    with gang(tmp_path / "g", command, nodes=2, per_node=2, prepare=f"{SHOWS}; {TELLS}", python=made) as there:
        to_end(there)
        there.run(2)
        there.reach(Phase.ENDED, 2)
        for node in range(2):
            times, names = there.server.log(2 * node, 2, node).decode().splitlines()
            assert times == "x"
            assert {"NODE_RANK", "DRUMBEAT_JOB", "DRUMBEAT_OUTPUT_DIR", "VIRTUAL_ENV", "AZUREML_RUN_ID"} <= {
                *names.split()
            }
            assert not {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "DRUMBEAT_ROUND"} & {*names.split()}
            assert f"preparing {node} in code\n2.0 True\n" in own_log(there, node)


@pytest.mark.feature("L12")
def test_a_preparation_that_fails_says_how_and_takes_along_what_it_started(tmp_path: Path):
    prepare = "(setsid sleep 600 &) ; echo first; echo no such device >&2; exit 3"
    with gang(tmp_path / "g", prepare=prepare) as there:
        assert trouble(there) == "the job's preparation ended with exit code 3: no such device"
        assert own_log(there) == "drumbeat: running the job's preparation\nfirst\nno such device\n"
        assert [pid for pid in mentioning(str(tmp_path)) if "sleep" in _words(pid)] == []


@pytest.mark.feature("L12")
@pytest.mark.parametrize("how", ["leave", "kill"])
def test_nothing_of_a_preparation_outlives_its_agent(tmp_path: Path, how: str):
    prepare = "trap 'echo saving; exit 1' TERM; (setsid sleep 600 &) ; echo begun; while :; do sleep 0.1; done"
    with gang(tmp_path / "g", prepare=prepare) as there:
        there.start()
        there.order(Order.PREPARE)
        there.server.wait_for(lambda: "begun" in own_log(there))
        if how == "leave":
            assert there.leave() == [0]
        else:
            there.kill_agent()
        until(lambda: not [pid for pid in mentioning(str(tmp_path)) if "sleep" in _words(pid)], what="the end of sleep")
        (log,) = there.root().glob("logs/1.1/0/node.log")
        assert log.read_text().endswith("\nsaving\n")


@pytest.mark.feature("L12")
def test_a_preparation_that_was_broken_off_is_begun_anew(tmp_path: Path):
    prepare = "if [ -e begun ]; then echo again; else touch begun; echo waits; sleep 600; fi"
    with gang(tmp_path / "g", "cat begun", prepare=prepare) as there:
        there.start()
        there.order(Order.PREPARE)
        there.server.wait_for(lambda: "waits" in own_log(there))
        there.kill_agent()
        there.agents.clear()
        to_end(there)
        assert own_log(there).endswith("again\n")


@pytest.mark.feature("L12", "F5")
def test_a_preparation_of_which_an_agent_dies_as_it_is_noted_isn_t_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with gang(tmp_path / "g", "cat times", prepare="echo x >> times") as there:
        monkeypatch.setenv("DRUMBEAT_FAULT", "agent.prepared")
        there.start()
        there.order(Order.PREPARE)
        assert there.agents.pop(0).wait(120) == -signal.SIGKILL
        monkeypatch.delenv("DRUMBEAT_FAULT")
        to_end(there)
        assert there.server.log(0) == b"x\n"
        assert own_log(there).count("running the job's preparation") == 1


@pytest.mark.feature("L12")
def test_after_another_start_of_the_machine_a_node_is_prepared_again(tmp_path: Path):
    with gang(tmp_path / "g", "cat times", prepare="echo x >> times") as there:
        ready(there)
        there.kill_agent()
        there.agents.clear()
        for mark in ("staging", "staged", "prepared"):
            (there.root() / mark).write_text("an earlier one")
        (there.root() / "code" / "times").write_text("")
        to_end(there)
        assert there.server.log(0) == b"x\n"
        assert own_log(there).count("running the job's preparation") == 2


# --- with a server ------------------------------------------------------------------------------------------------
@pytest.mark.feature("E1", "E4", "L12", "M6")
@pytest.mark.thorough
def test_a_job_file_with_an_environment_and_a_preparation(wheels: Path, own_house: House):
    own_house.script(f"--no-index\n--find-links {wheels}\ntiny==1.0\n", file="requirements.txt")
    path = own_house.job_file(
        code=".",
        command=json.dumps(TELLS),
        resources="{instance_count: 2}",
        environment="{conda_file: requirements.txt}",
        drumbeat="{prepare: echo prepared}",
    )
    done = own_house.run("run", path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("node │ Successfully installed tiny-1.0") == 1
    job = only_job(own_house)
    shown = own_house.run("logs", job.name).stdout
    assert "0:node │ prepared" in shown
    assert "1:node │ prepared" in shown
    assert own_house.run("logs", job.name, "--rank", "1").stdout == "1:1 │ 1.0 True\n"
    assert time_in_environment(own_house, job.name) > 0
    again = own_house.run("run", path)
    assert again.returncode == 0
    assert "Successfully installed" not in again.stdout
    newest = own_house.client.list(limit=1)[0]
    assert time_in_environment(own_house, newest.name) == 0


def time_in_environment(house: House, job: str) -> float:
    (row,) = house.client.ledger(job).rows
    reasons = [line.reason for line in house.client.story(job)]
    assert ("building_environment" in reasons) == (row.seconds["environment"] > 0)
    return row.seconds["environment"]


@pytest.mark.feature("E4")
@pytest.mark.thorough
def test_a_job_whose_environment_cannot_be_made_says_why_and_keeps_the_log(wheels: Path, own_house: House):
    own_house.script(f"--no-index\n--find-links {wheels}\n\ntiny==7\n", file="requirements.txt")
    path = own_house.job_file(code=".", command="python t.py", environment="{conda_file: requirements.txt}")
    done = own_house.run("run", path)
    assert done.returncode == 1
    said = " ".join((done.stdout + done.stderr).split())
    assert "pip found no version of tiny==7; available: 1.0, 2.0 (requirements.txt, line 4)" in said
    job = only_job(own_house)
    assert (job.reason, len(job.failures)) == ("staging_failed", 1)
    assert "No matching distribution found for tiny==7" in own_house.run("logs", job.name).stdout


@pytest.mark.feature("E4", "F10")
@pytest.mark.parametrize(
    ("tool", "asked"), [pytest.param("pip", "tiny==7", marks=pytest.mark.thorough), ("uv", "tiny")]
)
def test_an_index_that_cant_be_reached_is_told_and_may_be_there_later(
    own_house: House, monkeypatch: pytest.MonkeyPatch, tool: str, asked: str
):
    for name in settings_of_tools():
        own_house.environment.pop(name)
        monkeypatch.delenv(name)
    alone = {"PIP_RETRIES": "1", "PIP_CONFIG_FILE": os.devnull, "UV_HTTP_RETRIES": "0"}
    chosen = {"PIP_INDEX_URL": NOWHERE} if tool == "pip" else {"PATH": f"{provide(UV).parent}:{os.environ['PATH']}"}
    for name, value in {**alone, **chosen}.items():
        own_house.environment[name] = value
        monkeypatch.setenv(name, value)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{closed.getsockname()[1]}"
        own_house.script(f"--index-url http://{place}/simple\ntiny==7\n", file="requirements.txt")
        path = own_house.job_file(code=".", command="python t.py", environment="{conda_file: requirements.txt}")
        done = own_house.run("run", path)
    assert done.returncode == 1
    job = only_job(own_house)
    assert (job.state, job.reason, len(job.failures)) == ("failed", "out_of_reach", 1)
    said = f"{tool} could not reach the index {place} (Connection refused), and so found no version of {asked} "
    assert f"{said}(requirements.txt, line 2)" in job.sentence
    assert job.sentence.endswith("; it may pass: run the job again then")


@pytest.mark.feature("L12")
def test_a_preparation_fails_or_is_canceled_with_its_job(own_house: House):
    path = own_house.job_file(code=".", command="echo never", drumbeat='{prepare: "echo oh no; exit 7"}')
    failed = own_house.client.wait(own_house.client.submit(path).name, 60)
    assert failed is not None
    assert (failed.state, failed.reason, len(failed.failures)) == ("failed", "staging_failed", 1)
    assert "node 0 could not be prepared: the job's preparation ended with exit code 7: oh no" in failed.sentence
    path = own_house.job_file(code=".", command="echo never", drumbeat='{prepare: "(setsid sleep 600 &); sleep 600"}')
    job = own_house.client.submit(path)
    until(lambda: sum("sleep" in _words(one.pid) for one in own_house.processes()) >= 2, what="the preparation")
    own_house.client.cancel(job.name)
    canceled = own_house.client.wait(job.name, 60)
    assert canceled is not None
    assert canceled.state == "canceled"
    until(lambda: not any("sleep" in _words(one.pid) for one in own_house.processes()), what="the end of it")


def only_job(house: House) -> JobView:
    (job,) = house.client.list()
    return house.client.get(job.name)
