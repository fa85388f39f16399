"""Wheels that this node has built from source: each is built once, kept by what decides whether it fits, and found.

- `wheels/<key>/`: the wheel; it is there whole or not at all
- `wheels/<key>.part/`: the tools of a build, its temporary files, what comes out; whoever begins removes it
- `wheels/<key>.lock`: held alone by whoever builds
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import sysconfig
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from drumbeat.model.errors import RefusedError
from drumbeat.model.failpoints import failpoint
from drumbeat.model.plan import PythonEnvironment, SourceBuild
from drumbeat.model.wire import to_wire
from drumbeat.node.environments import compilers
from drumbeat.node.environments.install_commands import Builder, InstallCommand, tool_environment
from drumbeat.node.environments.install_errors import name_of
from drumbeat.node.environments.installed_packages import installed, normal, site_folders
from drumbeat.node.platform import cache_folders, disk, locks

LOOK_S = 0.1
_HASHES = "--require-hashes"
_WITH_EXTRAS = re.compile(r"[\w.-]+(?:\s*\[[^\]]*\])?")
_PART = ".part"
BROKEN_S = 86400.0
"""How long what another agent was building is kept: where nodes share the cache, their locks may not be seen here."""
UNUSED_S = 30 * 86400.0
"""How long a wheel is kept that nobody asks for. What was made with it doesn't need it any more."""


@dataclass(frozen=True)
class WheelTarget:
    """The environment that a wheel is built for."""

    wanted: PythonEnvironment
    builder: Builder
    folder: str
    """Of the environment, with all its other packages."""
    python: str
    """The version of its Python."""
    run: Callable[[InstallCommand, Mapping[str, str], int], None]
    """Runs a step with these variables, with an open file that all it starts keeps; raises RefusedError with the tool's
    own words."""
    say: Callable[[str], None]
    """Adds a line to the log."""
    waits: Callable[[str], None]
    """Called now and then while another process builds it."""

    @property
    def path(self) -> str:
        """Where programs are looked for: its own come first."""
        return f"{self.folder}/bin:{os.environ.get('PATH', os.defpath)}"


def build_of(requirement: str, wanted: PythonEnvironment) -> SourceBuild | None:
    """How a line's package is built; None = it isn't, or the line is an option of pip's."""
    name = normal(name_of(requirement))
    return next((one for one in wanted.builds if normal(one.package) == name), None) if name else None


def line(requirement: str, target: WheelTarget) -> str:
    """The same line with the wheel in the place of a version; "" for what isn't built. Raises as `provide` does."""
    if requirement.startswith("-"):
        return "" if requirement == _HASHES else requirement
    build = build_of(requirement, target.wanted)
    if build is None:
        return ""
    named = _WITH_EXTRAS.match(requirement)
    return f"{named[0] if named else build.package} @ {pathlib.Path(provide(build, requirement, target)).as_uri()}"


def provide(build: SourceBuild, requirement: str, target: WheelTarget) -> str:
    """The wheel's path: it is found, or waited for, or built. Raises RefusedError, OSError."""
    root = os.path.abspath(cache_folders.folder("wheels"))
    os.makedirs(root, exist_ok=True)
    folder = os.path.join(root, key(build, requirement, target))
    while (lock := locks.take(f"{folder}.lock")) is None:
        target.waits(build.package)
        time.sleep(LOOK_S)
    try:
        if not _in(folder):
            _make(build, requirement, target, folder, lock)
        else:
            target.say(f"{requirement} was built on this machine before: {_in(folder)}")
        os.utime(folder)
        with contextlib.suppress(OSError):
            collect(root, time.time())
    finally:
        os.close(lock)
    return _in(folder)


def key(build: SourceBuild, requirement: str, target: WheelTarget) -> str:
    """Names what comes out: another source, setting, Python, platform, or version of what is linked to has another."""
    found = installed(site_folders(target.folder))
    linked = [[name, found.get(normal(name)) or compilers.version(name, target.path)] for name in build.linked_to]
    python = target.python.split(".")[:2]
    told = [requirement, to_wire(build), linked, python, sysconfig.get_platform(), *platform.libc_ver()]
    return f"{build.package}-{hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]}"


def collect(root: str, now: float, unused_s: float = UNUSED_S) -> list[str]:
    """Removes wheels that no environment has asked for in a long time, and builds that broke off; gives their folders.

    A process that builds a wheel holds its lock.
    """
    removed: list[str] = []
    for entry in list(os.scandir(root)):
        name = entry.path.removesuffix(_PART)
        if not entry.is_dir() or _age(entry.path, now) < (unused_s if name == entry.path else BROKEN_S):
            continue
        lock = locks.take(f"{name}.lock")
        if lock is not None:
            shutil.rmtree(entry.path, ignore_errors=True)
            os.unlink(f"{name}.lock")
            os.close(lock)
            removed.append(entry.path)
    return removed


def _age(folder: str, now: float) -> float:
    """How long nobody has asked for it, in seconds; 0 = another one has just removed it."""
    try:
        return now - os.stat(folder).st_mtime
    except FileNotFoundError:
        return 0.0


# --- building ---------------------------------------------------------------------------------------------------
def _make(build: SourceBuild, requirement: str, target: WheelTarget, folder: str, lock: int) -> None:
    what = f"environment {target.wanted.name}: {build.package}"
    compilers.require(build.programs, target.path, what, target.wanted.source)
    target.say(f"building {requirement} from source; this takes minutes, and what comes out is kept")
    began, part = time.monotonic(), folder + _PART
    _remove(part)
    os.makedirs(f"{part}/scratch")
    try:
        _prepare(build, requirement, target, part, lock)
        failpoint("wheel.begun")
        target.run(_step(build, part), _environment(build, target, part), lock)
        if not _in(f"{part}/out"):
            raise RefusedError(f"{what}: pip has built no wheel of it")
        failpoint("wheel.built")
        disk.settle(f"{part}/out")  # By its name it is believed for ever.
        os.replace(f"{part}/out", folder)
    finally:
        _remove(part)
    target.say(f"{requirement} is built, in {time.monotonic() - began:.0f} s: {_in(folder)}")


def _prepare(build: SourceBuild, requirement: str, target: WheelTarget, part: str, lock: int) -> None:
    """The tools of the build, in a folder of their own, from which the environment's packages can be imported."""
    # What constrains the environment's packages is no matter of the build's own.
    options = [one for one in target.wanted.requirements if one.startswith("-") and not one.startswith("--constraint")]
    _write(f"{part}/tools.txt", [*(one for one in options if one != _HASHES), *build.requires, "pip"])
    _write(f"{part}/source.txt", [*options, requirement])
    for step in target.builder.tools(target.folder, f"{part}/tools", f"{part}/tools.txt"):
        target.run(step, tool_environment(), lock)
    (there,) = site_folders(f"{part}/tools")[:1]
    _write(f"{there}/environment.pth", site_folders(target.folder))


def _step(build: SourceBuild, part: str) -> InstallCommand:
    # pip keeps what it has built by its address alone, whatever it was built with: hence no cache.
    options = ("--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--no-cache-dir", "--verbose")
    source = ("--no-deps", "--no-build-isolation", "--no-binary", build.package)
    words = (*options, *source, "--wheel-dir", f"{part}/out", "--requirement", f"{part}/source.txt")
    return InstallCommand("pip", (f"{part}/tools/bin/python", "-I", "-u", "-m", "pip", "wheel", *words))


def _environment(build: SourceBuild, target: WheelTarget, part: str) -> dict[str, str]:
    found = {**tool_environment(), **build.variables, "TMPDIR": f"{part}/scratch"}
    found |= {"PATH": f"{part}/tools/bin:{target.path}", **compilers.at_once(found)}
    if build.cxx_standard:
        _write(f"{part}/c++", [compilers.wrapper(build.cxx_standard, found)])
        os.chmod(f"{part}/c++", 0o700)
        found["CXX"] = f"{part}/c++"
    return found


def _in(folder: str) -> str:
    """The wheel in a folder, "" = there is none."""
    return next(iter(sorted(glob.glob(f"{glob.escape(folder)}/*.whl"))), "")


def _remove(folder: str) -> None:
    if os.path.lexists(folder):
        shutil.rmtree(folder)


def _write(path: str, lines: list[str]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
