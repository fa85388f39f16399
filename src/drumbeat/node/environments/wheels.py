"""Wheels that this node has built from source. Each is built once and reused by a key of everything that it depends on.

- `wheels/<key>/`: the wheel; complete or absent
- `wheels/<key>.part/`: a build's tools, temporary files and results; the next build removes it
- `wheels/<key>.lock`: held exclusively during a build
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
from drumbeat.node.environments.install_errors import project_name
from drumbeat.node.environments.installed_packages import installed, normal, site_folders
from drumbeat.node.platform import cache_folders, disk, locks

LOOK_S = 0.1
_HASHES = "--require-hashes"
_WITH_EXTRAS = re.compile(r"[\w.-]+(?:\s*\[[^\]]*\])?")
_PART = ".part"
BROKEN_S = 86400.0
"""How long another agent's partial build is kept: where nodes share the cache, its lock may be invisible here."""
UNUSED_S = 30 * 86400.0
"""How long an unused wheel is kept. Environments that were built with it don't need it."""


@dataclass(frozen=True)
class WheelTarget:
    """The environment that a wheel is built for."""

    wanted: PythonEnvironment
    builder: Builder
    folder: str
    """The folder of the environment, with all its other packages."""
    python: str
    """The version of the environment's Python."""
    run: Callable[[InstallCommand, Mapping[str, str], int], None]
    """Runs a step with these variables, with an open file that all its processes keep; raises RefusedError with the
    tool's own error.
    """
    say: Callable[[str], None]
    """Adds a line to the log."""
    waits: Callable[[str], None]
    """Is called repeatedly while another process builds the wheel."""

    @property
    def path(self) -> str:
        """The PATH: the environment's own programs come first."""
        return f"{self.folder}/bin:{os.environ.get('PATH', os.defpath)}"


def find_build(requirement: str, wanted: PythonEnvironment) -> SourceBuild | None:
    """The source build of a requirement; None = it has none, or it is an option of pip's."""
    name = normal(project_name(requirement))
    return next((one for one in wanted.builds if normal(one.package) == name), None) if name else None


def line(requirement: str, target: WheelTarget) -> str:
    """The requirement with the wheel in place of a version; "" for one that isn't built. Raises as `provide` does."""
    if requirement.startswith("-"):
        return "" if requirement == _HASHES else requirement
    build = find_build(requirement, target.wanted)
    if build is None:
        return ""
    named = _WITH_EXTRAS.match(requirement)
    return f"{named[0] if named else build.package} @ {pathlib.Path(provide(build, requirement, target)).as_uri()}"


def provide(build: SourceBuild, requirement: str, target: WheelTarget) -> str:
    """The wheel's path: found, waited for, or built. Raises RefusedError, OSError."""
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
    """The key of the wheel: it depends on source, settings, Python, platform, and the versions that it is linked to."""
    versions = installed(site_folders(target.folder))
    linked = [[name, versions.get(normal(name)) or compilers.version(name, target.path)] for name in build.linked_to]
    python = target.python.split(".")[:2]
    parts = [requirement, to_wire(build), linked, python, sysconfig.get_platform(), *platform.libc_ver()]
    return f"{build.package}-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]}"


def collect(root: str, now: float, unused_s: float = UNUSED_S) -> list[str]:
    """Removes wheels that were unused for long, and interrupted builds; returns their folders.

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
    """How long a wheel has been unused, in seconds; 0 = another process has just removed it."""
    try:
        return now - os.stat(folder).st_mtime
    except FileNotFoundError:
        return 0.0


# --- building ---------------------------------------------------------------------------------------------------
def _make(build: SourceBuild, requirement: str, target: WheelTarget, folder: str, lock: int) -> None:
    what = f"environment {target.wanted.name}: {build.package}"
    compilers.require(build.programs, target.path, what, target.wanted.source)
    target.say(f"building {requirement} from source; this takes minutes, and the wheel is kept")
    began, part = time.monotonic(), folder + _PART
    _remove(part)
    os.makedirs(f"{part}/scratch")
    try:
        _prepare(build, requirement, target, part, lock)
        failpoint("wheel.begun")
        target.run(_step(build, part), _environment(build, target, part), lock)
        if not _in(f"{part}/out"):
            raise RefusedError(f"{what}: pip built no wheel")
        failpoint("wheel.built")
        disk.settle(f"{part}/out")  # It is trusted forever by its name.
        os.replace(f"{part}/out", folder)
    finally:
        _remove(part)
    target.say(f"{requirement} was built in {time.monotonic() - began:.0f} s: {_in(folder)}")


def _prepare(build: SourceBuild, requirement: str, target: WheelTarget, part: str, lock: int) -> None:
    """Installs the build's tools into their own folder, from which the environment's packages can be imported."""
    # The environment's constraints don't apply to the build's own tools.
    options = [one for one in target.wanted.requirements if one.startswith("-") and not one.startswith("--constraint")]
    _write(f"{part}/tools.txt", [*(one for one in options if one != _HASHES), *build.requires, "pip"])
    _write(f"{part}/source.txt", [*options, requirement])
    for step in target.builder.tools(target.folder, f"{part}/tools", f"{part}/tools.txt"):
        target.run(step, tool_environment(), lock)
    (packages,) = site_folders(f"{part}/tools")[:1]
    _write(f"{packages}/environment.pth", site_folders(target.folder))


def _step(build: SourceBuild, part: str) -> InstallCommand:
    # pip caches built wheels by their address alone, whatever they were built with: hence no cache.
    options = ("--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--no-cache-dir", "--verbose")
    source = ("--no-deps", "--no-build-isolation", "--no-binary", build.package)
    words = (*options, *source, "--wheel-dir", f"{part}/out", "--requirement", f"{part}/source.txt")
    return InstallCommand("pip", (f"{part}/tools/bin/python", "-I", "-u", "-m", "pip", "wheel", *words))


def _environment(build: SourceBuild, target: WheelTarget, part: str) -> dict[str, str]:
    variables = {**tool_environment(), **build.variables, "TMPDIR": f"{part}/scratch"}
    variables |= {"PATH": f"{part}/tools/bin:{target.path}", **compilers.at_once(variables)}
    if build.cxx_standard:
        _write(f"{part}/c++", [compilers.wrapper(build.cxx_standard, variables)])
        os.chmod(f"{part}/c++", 0o700)
        variables["CXX"] = f"{part}/c++"
    return variables


def _in(folder: str) -> str:
    """The wheel in a folder, "" = none."""
    return next(iter(sorted(glob.glob(f"{glob.escape(folder)}/*.whl"))), "")


def _remove(folder: str) -> None:
    if os.path.lexists(folder):
        shutil.rmtree(folder)


def _write(path: str, lines: list[str]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
