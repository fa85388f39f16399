"""Packages that nodes build from source, with settings of their own: once for all that fits, and kept."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from drumbeat.model.agent import AgentStatus, Order, Phase
from drumbeat.model.plan import PythonEnvironment, SourceBuild
from tests.support.agent_gang import AgentGang, mentioning

from .guard import guarded
from .house import until
from .wheels import source, wheel

pytestmark = [
    pytest.mark.feature("E1", "E4"),
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler: apt-get install g++"),
]

BACKEND = '''
import os, subprocess, zipfile
import tiny

def build_wheel(folder, *_, **__):
    print("compiling with", tiny.version, flush=True)
    with open("own.cc", "w") as file:
        file.write("""CODE""")
    subprocess.check_call([*os.environ.get("CXX", "c++").split(), "-std=gnu++14", "-o", "own", "own.cc"])
    said = subprocess.check_output(["./own"], text=True)
    name = "native-1.0-py3-none-any.whl"
    info = "native-1.0.dist-info"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as archive:
        archive.writestr("native.py", f"said = {said + os.environ.get('FLAVOUR', '') + tiny.version!r}")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: native\\nVersion: 1.0\\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        archive.writestr(f"{info}/RECORD", "")
    return name
'''
STANDARD = '#include <cstdio>\nint main() { std::printf("%ld ", __cplusplus / 100); }'
TELLS = "python -c 'import native; print(native.said)'"
NATIVE = SourceBuild("native", {"FLAVOUR": "vanilla "}, 17, ("tool",), ("c++",), ("tiny",))


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with `native`, which has to be built, and what it needs; the node's cache is empty."""
    folder = tmp_path / "wheels"
    for version in ("1.0", "2.0"):
        wheel(folder, "tiny", version)
    wheel(folder, "tool", "1.0")
    wheel(folder, "other", "1.0")
    source(folder, "native", "1.0", BACKEND.replace("CODE", STANDARD.replace("\\", "\\\\")))
    monkeypatch.setenv("DRUMBEAT_CACHE", str(tmp_path / "cache"))
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with guarded(tmp_path):
        yield folder


def mine(wheels: Path, *wanted: str, build: SourceBuild = NATIVE) -> PythonEnvironment:
    lines = ("--no-index", f"--find-links {wheels}", *(wanted or ("tiny==1.0", "native==1.0")))
    numbers = tuple(range(5, 5 + len(lines)))
    return PythonEnvironment(
        "k" + "".join(wanted) + str(build), "mine", "", lines, (), (), "env.yml", numbers, (build,)
    )


def ready(there: AgentGang) -> list[AgentStatus]:
    """What the nodes say when they are ready, or can't be."""
    for node in range(there.nodes):
        if node not in there.agents:
            there.start(node)
    there.order(Order.PREPARE)

    def all_said() -> bool:
        said = [there.server.status(node) for node in range(there.nodes)]
        return all(one is not None and (one.error or one.phase is Phase.READY) for one in said)

    there.server.wait_for(all_said, 180)
    return [there.status(node) for node in range(there.nodes)]


def run(folder: Path, python: PythonEnvironment) -> tuple[str, str]:
    """What a rank says in it, and what the node said while it was made."""
    folder.mkdir()
    with AgentGang(folder, TELLS, python=python) as there:
        ready(there)
        there.run()
        there.reach(Phase.ENDED)
        return there.server.log(0).decode(), there.server.log(-1, node=0).decode()


def kept(folder: Path) -> list[str]:
    return [path.name for path in sorted((folder / "cache" / "wheels").glob("*/*.whl"))]


@pytest.mark.thorough
def test_a_wheel_is_built_with_its_settings_and_taken_where_it_fits(tmp_path: Path, wheels: Path):
    said, log = run(tmp_path / "g1", mine(wheels))
    assert said == "2017 vanilla 1.0\n"  # C++17, though it asks for 14
    assert "drumbeat: building native==1.0 from source" in log
    assert "compiling with 1.0" in log
    said, log = run(tmp_path / "g2", mine(wheels, "tiny==1.0", "other", "native==1.0"))
    assert said == "2017 vanilla 1.0\n"
    assert "native==1.0 was built on this machine before: " in log
    assert "compiling" not in log
    assert kept(tmp_path) == ["native-1.0-py3-none-any.whl"]
    plain = replace(NATIVE, variables={}, cxx_standard=0)
    assert run(tmp_path / "g3", mine(wheels, build=plain))[0] == "2014 1.0\n"
    assert run(tmp_path / "g4", mine(wheels, "tiny==2.0", "native==1.0"))[0] == "2017 vanilla 2.0\n"
    assert len(kept(tmp_path)) == 3
    assert not [*(tmp_path / "cache" / "wheels").glob("*.part")]


@pytest.mark.thorough  # tests/real/test_environments.py shows it of environments.
def test_environments_that_ask_at_once_have_it_built_once(tmp_path: Path, wheels: Path):
    for n in range(2):
        (tmp_path / f"g{n}").mkdir()
        wheel(wheels, f"own{n}", "1.0")
    wanted = [mine(wheels, "tiny==1.0", f"own{n}", "native==1.0") for n in range(2)]
    gangs = [AgentGang(tmp_path / f"g{n}", TELLS, python=one) for n, one in enumerate(wanted)]
    with gangs[0], gangs[1]:
        for there in gangs:
            there.start()
            there.order(Order.PREPARE)
        assert [ready(there)[0].error for there in gangs] == ["", ""]
        for there in gangs:
            there.run()
            there.reach(Phase.ENDED)
        logs = [there.server.log(-1, node=0).decode() for there in gangs]
    assert sum("compiling" in log for log in logs) == 1
    assert sum("was built on this machine before" in log for log in logs) == 1


@pytest.mark.parametrize("point", ["wheel.begun", "wheel.built"])
@pytest.mark.thorough
def test_an_agent_killed_on_the_way_leaves_nothing_half(
    tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch, point: str
):
    (tmp_path / "g").mkdir()
    with AgentGang(tmp_path / "g", TELLS, python=mine(wheels)) as there:
        monkeypatch.setenv("DRUMBEAT_FAULT", point)
        there.start()
        there.order(Order.PREPARE)
        assert there.agents.pop(0).wait(120) == -signal.SIGKILL
        assert kept(tmp_path) == []
        monkeypatch.delenv("DRUMBEAT_FAULT")
        ready(there)
        there.run()
        there.reach(Phase.ENDED)
        assert there.server.log(0) == b"2017 vanilla 1.0\n"
    assert kept(tmp_path) == ["native-1.0-py3-none-any.whl"]
    assert not [*(tmp_path / "cache" / "wheels").glob("*.part")]


@pytest.mark.thorough
def test_what_a_killed_agent_was_building_ends_with_it(tmp_path: Path, wheels: Path):
    source(wheels, "native", "1.0", "import time; print('building', flush=True); time.sleep(600)")
    (tmp_path / "g").mkdir()
    with AgentGang(tmp_path / "g", "true", python=mine(wheels)) as there:
        there.start()
        there.order(Order.PREPARE)
        there.server.wait_for(lambda: b"\n  building" in there.server.log(-1, node=0), 120)
        build = str(tmp_path / "cache" / "wheels")
        assert mentioning(build)
        there.kill_agent()
        until(lambda: not mentioning(build), what="the end of the build")


@pytest.mark.thorough
def test_a_build_that_fails_says_what_the_compiler_said(tmp_path: Path, wheels: Path):
    source(wheels, "native", "1.0", BACKEND.replace("CODE", "#include <nothing.h>"))
    (tmp_path / "g").mkdir()
    with AgentGang(tmp_path / "g", "true", python=mine(wheels)) as there:
        (one,) = ready(there)
        said = "own.cc:1:10: fatal error: nothing.h: No such file or directory"
        assert one.error.startswith(f"environment mine: pip could not build native: {said} (env.yml, line 8)")
    assert kept(tmp_path) == []


def test_a_program_that_is_missing_is_named_with_what_to_install(tmp_path: Path, wheels: Path):
    build = replace(NATIVE, programs=("c++", "mpicxx-9", "nowhere"))
    (tmp_path / "g").mkdir()
    with AgentGang(tmp_path / "g", "true", python=mine(wheels, build=build)) as there:
        (one,) = ready(there)
        assert one.error == (
            "env.yml: environment mine: native is built from source, and this node has no mpicxx-9 and no nowhere "
            "on its PATH. Install it on every node: apt-get install mpicxx-9 nowhere (Debian, Ubuntu)."
        )
