"""Where environments lie, what makes them, which are kept."""

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drumbeat.model.errors import RefusedError
from drumbeat.model.plan import PythonEnvironment, SourceBuild
from drumbeat.node.environments import interpreters, wheels
from drumbeat.node.environments.environment_builder import EnvironmentBuilder
from drumbeat.node.environments.folders import EnvironmentFolder
from drumbeat.node.environments.garbage_collection import Bounds, collect
from drumbeat.node.environments.install_commands import Builder, InstallCommand, choose, tool_environment
from drumbeat.node.environments.installed_packages import fingerprint, installed
from drumbeat.node.environments.interpreters import Interpreter, bundled
from drumbeat.node.environments.tool_configuration import own_places

OWN = Interpreter("3.11.7", "/usr/bin/python3.11")
NOW = 1_800_000_000.0


def mine(*wanted: str, **more: object) -> PythonEnvironment:
    return PythonEnvironment("0123abcd", "mine", "", wanted, **more)


def program(folder: Path, name: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).touch(0o755)
    return folder / name


# --- builders ---
@pytest.mark.feature("E1")
def test_uv_makes_it_where_pip_is_not_set_up_otherwise(tmp_path: Path):
    uv = program(tmp_path / "bin", "uv")
    there = {"PATH": str(uv.parent), "HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path), "PIP_CONFIG_FILE": "/dev/null"}  # fmt: skip  # noqa: E501
    assert choose(mine("tiny"), OWN, there).tool == "uv"
    assert choose(mine("--find-links /w", "tiny"), OWN, there).tool == "uv"
    assert choose(mine("--pre", "tiny"), OWN, there).tool == "pip"
    found = choose(mine("tiny"), OWN, {**there, "PIP_FIND_LINKS": "/opt/wheels"})
    assert (found.tool, found.why) == ("pip", "pip is set up on this node: PIP_FIND_LINKS")
    assert choose(mine("tiny"), OWN, {**there, "PATH": "/nowhere"}).tool == "pip"


@pytest.mark.feature("E1")
def test_pips_own_configuration_is_found_in_its_files_and_variables(tmp_path: Path):
    config = tmp_path / ".config" / "pip" / "pip.conf"
    config.parent.mkdir(parents=True)
    config.write_text("[global]\nextra-index-url = https://here\ntimeout = 60\n[install]\nno-index = no\n")
    named = tmp_path / "named.conf"
    named.write_text("[install]\nfind-links = /w\n")
    there = {"HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path / "none"), "PIP_CONFIG_FILE": str(named)}
    found = [one for one in own_places({**there, "PIP_NO_INDEX": "1"}) if "/etc/" not in one]
    assert found == ["PIP_NO_INDEX", f"extra-index-url in {config}", f"find-links in {named}"]
    assert own_places({**there, "PIP_CONFIG_FILE": "/dev/null"}) == []


@pytest.mark.feature("E1")
def test_the_key_covers_content_python_and_builder(tmp_path: Path):
    plain = {"PATH": "/nowhere", "HOME": str(tmp_path)}
    keys = {
        choose(mine("tiny"), OWN, plain).key(mine("tiny")),
        choose(mine("tiny"), Interpreter("3.11.8", OWN.path), plain).key(mine("tiny")),
        choose(mine("tiny"), Interpreter("3.11.7", "/opt/python"), plain).key(mine("tiny")),
        choose(mine("tiny"), replace(OWN, wheels=("/w/pip-23-py3-none-any.whl",)), plain).key(mine("tiny")),
        choose(mine("tiny"), OWN, plain).key(PythonEnvironment("../../0123", "mine")),
    }
    assert len(keys) == 5
    assert not any("/" in key or "." in key for key in keys)


@pytest.mark.feature("E1")
def test_python_without_ensurepip_is_refused_with_a_fix(tmp_path: Path):
    with pytest.raises(RefusedError, match=r"python3\.11-venv; or install uv"):
        choose(mine("tiny"), Interpreter("3.11.2", "/usr/bin/python3.11", has_pip=False), {"PATH": str(tmp_path)})


@pytest.mark.feature("E1")
@pytest.mark.parametrize(
    ("version", "there", "put_in"),
    [
        ("3.11.7", ("pip-23", "setuptools-65"), ("pip-23", "setuptools-65")),
        ("3.12.1", ("pip-24", "setuptools-65"), ("pip-24",)),
        ("3.11.7", ("pip-23",), ("pip-23",)),
        ("3.13.1", ("pip-9.0.3", "pip-23.0.1"), ("pip-23.0.1",)),
        ("3.12.1", (), ()),
    ],
)
def test_environment_has_the_packages_of_pythons_venv(
    version: str, there: tuple[str, ...], put_in: tuple[str, ...], tmp_path: Path
):
    for name in there:
        program(tmp_path / "wheels", f"{name}-py3-none-any.whl")
    wheels = bundled(version, [str(tmp_path / "none"), str(tmp_path / "wheels")])
    assert [Path(one).name.removesuffix("-py3-none-any.whl") for one in wheels] == list(put_in)
    first, *rest = Builder("pip", "", "", Interpreter(version, "/p", wheels=wheels)).steps(mine(), "/e", "")
    assert ("--without-pip" in first.argv) is bool(put_in)
    assert [one.argv[-len(wheels) :] for one in rest] == ([wheels] if wheels else [])
    assert all(one.variables == {"PIP_CONFIG_FILE": "/dev/null"} for one in rest), "as ensurepip has it"


@pytest.mark.feature("E1")
def test_conda_packages_are_made_by_the_first_conda_there_is(tmp_path: Path):
    wanted = mine("tiny", conda=("ffmpeg=6",), channels=("conda-forge",))
    with pytest.raises(RefusedError, match=r"conda packages \(ffmpeg=6\).*Move them below `pip:`"):
        choose(wanted, None, {"PATH": str(tmp_path)})
    for tool in ("conda", "micromamba"):
        program(tmp_path / "bin", tool)
    found = choose(wanted, None, {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)})
    create, install = found.steps(wanted, "/e", "/e.requirements.txt")
    assert create.argv[1:] == (
        "create", "--yes", "--prefix", "/e", "--override-channels", "--channel", "conda-forge", "python", "pip",
        "ffmpeg=6",
    )  # fmt: skip
    assert (create.tool, install.tool, install.argv[0]) == ("micromamba", "pip", "/e/bin/python")


def test_tools_keep_the_gangs_marks_and_no_other_pythons_variables():
    inherited = {"PYTHONPATH": "/x", "VIRTUAL_ENV": "/y", "PIP_TARGET": "/z", "DRUMBEAT_GANG": "/g", "HTTPS_PROXY": "p"}
    found = tool_environment({**inherited, "RANK": "0", "SLURM_JOB_ID": "1"})
    assert {name for name in found if name in inherited} == {"DRUMBEAT_GANG", "HTTPS_PROXY"}
    assert "RANK" not in found
    assert "SLURM_JOB_ID" not in found


@pytest.mark.feature("E1")
def test_uv_takes_the_best_version_of_all_indexes_as_pip_does_unless_the_node_says_otherwise(tmp_path: Path):
    plain = {"HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path / "etc")}
    assert tool_environment(plain)["UV_INDEX_STRATEGY"] == "unsafe-best-match"
    assert tool_environment({**plain, "UV_INDEX_STRATEGY": "first-index"})["UV_INDEX_STRATEGY"] == "first-index"
    for place, text in ((".config/uv/uv.toml", "[pip]\n"), ("etc/uv/uv.toml", "")):
        file = tmp_path / place
        file.parent.mkdir(parents=True)
        file.write_text(f'{text}index-strategy = "first-index"\n')
        assert "UV_INDEX_STRATEGY" not in tool_environment(plain)
        file.write_text("no toml")
        assert "UV_INDEX_STRATEGY" in tool_environment(plain)


# --- interpreters ---
@pytest.mark.feature("E1")
def test_the_agents_own_interpreter_is_taken_where_it_fits():
    own = ".".join(map(str, sys.version_info[:3]))
    for wanted in ("", ".".join(own.split(".")[:2]), own):
        assert interpreters.find(wanted, "mine").version == own


# --- places ---
def made(folder: Path, name: str, *, used_at: float = NOW, size: int = 1, pinned_by: str = "") -> EnvironmentFolder:
    place = EnvironmentFolder(str(folder / name))
    program(folder / name / "bin" if (folder / name).mkdir() is None else folder, "python")
    place.mark_made({"size": size})
    if pinned_by:
        place.use(pinned_by)
    os.utime(folder / name / "made", (used_at, used_at))
    return place


@pytest.mark.feature("E1")
def test_environment_without_mark_or_interpreter_is_incomplete(tmp_path: Path):
    place = made(tmp_path, "a", size=7)
    assert place.made() == {"size": 7}
    (tmp_path / "a" / "bin" / "python").unlink()
    assert place.made() is None
    other = EnvironmentFolder(str(tmp_path / "b"))
    (tmp_path / "b").mkdir()
    program(tmp_path / "b" / "bin", "python")
    assert other.made() is None


class Disk:
    """The C library, which syncs nothing: it notes which folder was to be, and whether `mark` was there then."""

    def __init__(self, mark: Path, code: int = 0) -> None:
        self.mark, self.code = mark, code
        self.synced: list[tuple[Path, bool]] = []

    def syncfs(self, opened: ctypes.c_ulong) -> int:
        self.synced.append((Path(f"/proc/self/fd/{opened.value}").readlink(), self.mark.exists()))
        ctypes.set_errno(errno.EIO)
        return self.code


@pytest.mark.feature("E1")
def test_environment_is_on_disk_before_its_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, code in (("a", 0), ("b", -1)):
        disk = Disk(tmp_path / name / "made", code)
        monkeypatch.setattr(ctypes, "CDLL", lambda *_, disk=disk, **__: disk)
        with pytest.raises(OSError, match="syncfs: Input/output error") if code else contextlib.nullcontext():
            made(tmp_path, name)
        assert disk.synced == [(tmp_path / name, False)]
        assert disk.mark.exists() is not bool(code)


@pytest.mark.feature("E1")
def test_a_wheel_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DRUMBEAT_CACHE", str(tmp_path))
    build = SourceBuild("native")
    wanted = mine("native==1.0", builds=(build,))

    class Tools(Builder):
        def tools(self, environment: str, folder: str, requirements: str) -> list[InstallCommand]:
            return [InstallCommand("venv", (folder,))]

    def run(step: InstallCommand, variables: Any, kept: int) -> None:
        if step.tool == "venv":
            Path(step.argv[0], "lib", "python3.11", "site-packages").mkdir(parents=True)
        else:
            out = Path(step.argv[0]).parents[2] / "out"
            out.mkdir()
            (out / "native-1.0-py3-none-any.whl").touch()

    target = wheels.WheelTarget(
        wanted, Tools("pip", "", "", None), str(tmp_path), "3.11", run, lambda _: None, lambda _: None
    )
    folder = tmp_path / "wheels" / wheels.key(build, "native==1.0", target)
    disk = Disk(folder)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: disk)
    assert wheels.provide(build, "native==1.0", target) == str(folder / "native-1.0-py3-none-any.whl")
    assert disk.synced == [(Path(f"{folder}.part", "out"), False)]


@pytest.mark.feature("E1")
def test_a_lock_is_held_by_one_alone_or_shared_by_many(tmp_path: Path):
    place = EnvironmentFolder(str(tmp_path / "a"))
    waited: list[int] = []

    def waits() -> None:
        waited.append(1)
        if len(waited) == 3:
            raise TimeoutError

    with place.held(shared=False, waits=None) as alone, place.held(shared=True, waits=None) as second:
        assert alone is not None
        assert second is None
        with pytest.raises(TimeoutError), place.held(shared=True, waits=waits):
            pass
    with place.held(shared=True, waits=None) as one, place.held(shared=True, waits=None) as two:
        assert None not in (one, two)
    with place.held(shared=False, waits=None) as alone:
        assert alone is not None
        place.forget()
        fresh = os.open(tmp_path / "a.lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(fresh, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(fresh)


class Tried(Exception):
    """It is being made."""


class Log:
    """As much of a NodeLog as is needed; what it hears is of no interest."""

    path, told_by = "/dev/null", ""

    def size(self) -> int:
        return 0

    def say(self, sentence: str) -> None: ...

    add = say


class Trying:
    """In the place of node tasks."""

    def run(self, name: str, command: object) -> int:
        raise Tried


@pytest.fixture
def one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EnvironmentFolder:
    """The place of `mine`."""
    monkeypatch.setenv("DRUMBEAT_CACHE", str(tmp_path))
    key = choose(mine("tiny"), interpreters.find("", "mine")).key(mine("tiny"))
    (tmp_path / "environments").mkdir()
    return EnvironmentFolder(str(tmp_path / "environments" / key))


def make_one(progress: Callable[[str], None] = lambda _: None) -> None:
    EnvironmentBuilder(mine("tiny"), "/root", Log(), Trying(), progress).provide()  # pyright: ignore[reportArgumentType]


@pytest.mark.feature("E4")
def test_only_waiting_agents_get_an_earlier_failure(one: EnvironmentFolder):
    one.mark_failed("no tiny", "ERROR: none")
    with pytest.raises(Tried):
        make_one()
    with contextlib.ExitStack() as another:
        another.enter_context(one.held(shared=False, waits=None))

        def fails(_said: str) -> None:
            one.mark_failed("no tiny any more", "ERROR: gone")
            another.close()

        with pytest.raises(RefusedError, match="no tiny any more"):
            make_one(fails)


@pytest.mark.feature("E4")
def test_clock_set_back_repeats_no_failure(one: EnvironmentFolder, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as later:
        now = time.time()
        later.setattr(time, "time", lambda: now + 3600)
        one.mark_failed("no tiny", "ERROR: none")
    with pytest.raises(Tried):
        make_one()


@pytest.mark.feature("E1")
def test_a_pin_counts_as_long_as_its_attempt_has_a_folder(tmp_path: Path):
    root = tmp_path / "root"
    root.mkdir()
    place = made(tmp_path, "a", pinned_by=str(root))
    assert place.pins(time.time()) == [str(root)]
    shutil.rmtree(root)
    assert place.pins(time.time()) == []
    assert list((tmp_path / "a.pins").iterdir()) == []


@pytest.mark.feature("E1")
def test_unused_environments_are_removed_and_pinned_ones_kept(tmp_path: Path):
    folder, root = tmp_path / "environments", tmp_path / "root"
    folder.mkdir()
    root.mkdir()
    long_ago = NOW - 31 * 86400
    made(folder, "new")
    made(folder, "old", used_at=long_ago)
    made(folder, "pinned", used_at=long_ago, pinned_by=str(root))
    held = made(folder, "held", used_at=long_ago)
    (folder / "half").mkdir()
    with held.held(shared=True, waits=None):
        removed = collect(str(folder), NOW)
    assert sorted(removed) == [str(folder / "half"), str(folder / "old")]
    assert {entry.name for entry in folder.iterdir() if entry.is_dir()} >= {"new", "pinned", "held"}
    assert not list(folder.glob("old*")) + list(folder.glob("half*"))


@pytest.mark.feature("E1")
@pytest.mark.parametrize(
    ("bounds", "left"),
    [(Bounds(count=2), "cd"), (Bounds(size=25), "cd"), (Bounds(size=9), ""), (Bounds(), "abcd")],
)
def test_beyond_a_bound_the_longest_unused_go_first(tmp_path: Path, bounds: Bounds, left: str):
    for n, name in enumerate("abcd"):
        made(tmp_path, name, used_at=NOW + n, size=10)
    collect(str(tmp_path), NOW + 10, bounds)
    assert {entry.name for entry in tmp_path.iterdir() if entry.is_dir()} == set(left)


# --- distributions ---
@pytest.mark.feature("E3")
def test_installed_packages_are_read_from_folder_names(tmp_path: Path):
    first, second = tmp_path / "one", tmp_path / "two"
    for folder, name in (
        (first, "Ruamel_yaml.clib-0.2.dist-info"), (first, "torch-2.13.0+cpu.dist-info"), (first, "torch"),
        (second, "torch-2.12.0.dist-info"), (second, "old-1.0-py3.11.egg-info"), (second, "~orch-1.dist-info.bak"),
    ):  # fmt: skip
        (folder / name).mkdir(parents=True)
    found = installed([str(first), str(second), str(tmp_path / "none")])
    assert found == {"ruamel-yaml-clib": "0.2", "torch": "2.13.0+cpu", "old": "1.0"}


@pytest.mark.feature("E3")
def test_a_fingerprint_names_what_was_asked_for_first_and_changes_with_every_version():
    many = {f"p{n:02}": "1" for n in range(60)} | {"torch": "2"}
    found = fingerprint("3.11.7", many, ["p59"])
    assert list(found.versions)[:3] == ["p59", "torch", "p00"]
    assert (len(found.versions), found.has_more) == (40, True)
    assert fingerprint("3.11.7", {**many, "p58": "2"}, ["p59"]).digest != found.digest
    assert fingerprint("3.11.8", many, ["p59"]).digest != found.digest
