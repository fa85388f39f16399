"""Has an environment on this node: finds it, waits for whoever makes it, or makes it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drumbeat.model.errors import RefusedError, StorageError, UnreachableError
from drumbeat.model.failpoints import failpoint
from drumbeat.model.plan import CONSTRAINT, PythonEnvironment
from drumbeat.model.python_fingerprint import Fingerprint
from drumbeat.node.environments import install_commands, install_errors, interpreters, wheels
from drumbeat.node.environments.folders import EnvironmentFolder
from drumbeat.node.environments.garbage_collection import collect, size_of
from drumbeat.node.environments.install_commands import Builder, InstallCommand
from drumbeat.node.environments.installed_packages import fingerprint, installed, normal, site_folders
from drumbeat.node.logs.node_log import NodeLog
from drumbeat.node.platform import cache_folders
from drumbeat.node.supervisor.node_tasks import NodeTasks, TaskCommand

NODE_TASK = "environment"
_READ = 256 << 10
_TAIL_LINES = 60
_CONSTRAINTS = ".constraints"


@dataclass(frozen=True)
class BuiltEnvironment:
    """An environment that is complete on this node."""

    folder: str
    """Shared by all jobs; each has a layer of its own in front (`job_layer.py`)."""
    fingerprint: Fingerprint


class EnvironmentBuilder:
    """For one attempt, whose folder is `root`. `progress` is told in words what is being done."""

    def __init__(
        self, wanted: PythonEnvironment, root: str, log: NodeLog, node_tasks: NodeTasks, progress: Callable[[str], None]
    ) -> None:
        self._wanted, self._root, self._log, self._node_tasks = wanted, root, log, node_tasks
        self._name = wanted.name
        self._progress = progress
        self._known: dict[str, Any] | None = None
        """The failure that was there before."""

    def provide(self) -> BuiltEnvironment:
        """The environment, pinned for this attempt. Raises RefusedError with a sentence when it can't be made,
        UnreachableError when that is because an index can't be reached.
        """
        python = None if self._wanted.conda else interpreters.find(self._wanted.python, self._name)
        builder = install_commands.choose(self._wanted, python)
        place = EnvironmentFolder(
            os.path.join(os.path.abspath(cache_folders.folder("environments")), builder.key(self._wanted))
        )
        self._known = place.failed()
        try:
            while (found := self._use(place)) is None:
                with place.held(shared=False, waits=self._waits) as lock:
                    if place.made() is None and lock is not None:
                        self._make(place, builder, lock)
        except OSError as error:
            raise StorageError(
                f"environment {self._name} can't be written: {error.strerror or error}",
                where=str(error.filename or place.folder),
                fix="Make room or give the right to write there; DRUMBEAT_CACHE names another folder.",
            ) from error
        return found

    def _use(self, place: EnvironmentFolder) -> BuiltEnvironment | None:
        with place.held(shared=True, waits=self._waits):
            told = place.made()
            if told is None:
                return None
            place.use(self._root)
        found = _look(place, str(told["python"]), self._wanted)
        if found.digest != told["digest"]:
            self._log.say(f"environment {self._name} isn't as it was made: something has installed into {place.folder}")
        return BuiltEnvironment(place.folder, found)

    def _waits(self) -> None:
        self._progress(f"environment {self._name}: another job on this machine is making it")

    # --- making it ----------------------------------------------------------------------------------------------------
    def _make(self, place: EnvironmentFolder, builder: Builder, lock: int) -> None:
        """Begins again whatever is there. The caller holds the place alone."""
        self._share_failure(place)
        self._progress(f"environment {self._name}: making it with {builder.tool}")
        with_python = f" and Python {builder.python.version}" if builder.python else ""
        self._log.say(f"making environment {self._name} with {builder.tool}{with_python} ({builder.why})")
        began = time.monotonic()
        place.unmake()
        failpoint("environment.begun")
        try:
            self._run_all(place, builder, lock)
        except UnreachableError:  # Those who waited may have more luck.
            place.unmake()
            raise
        except RefusedError as error:
            place.unmake()
            place.mark_failed(error.what, self._log.tail(_TAIL_LINES))
            raise
        failpoint("environment.installed")
        place.mark_made(self._told(place, builder))
        failpoint("environment.made")
        self._log.say(f"environment {self._name} is made, in {time.monotonic() - began:.1f} s")
        for folder in collect(os.path.dirname(place.folder), time.time()):
            self._log.say(f"removed {folder}, which nobody used any more")

    def _share_failure(self, place: EnvironmentFolder) -> None:
        """Who waited while another one failed doesn't try the same again."""
        told = place.failed()
        if told and told != self._known:
            self._log.say("another job on this machine has tried to make the same environment; it ended so:")
            self._log.add(told["tail"])
            raise RefusedError(told["what"])

    def _run_all(self, place: EnvironmentFolder, builder: Builder, lock: int) -> None:
        requirements, wanted = f"{place.folder}.requirements.txt", self._wanted
        # Lines keep their numbers, by which pip tells what was wrong with one.
        first = ["" if wheels.build_of(line, wanted) else line for line in wanted.requirements]
        try:
            _write(requirements, first)
            for step in builder.steps(wanted, place.folder, requirements):
                self._run(step, lock)
            if wanted.builds:
                _write(requirements, self._from_source(place, builder, lock))
                self._run(builder.install(place.folder, requirements), lock)
        finally:
            for one in (requirements, requirements + _CONSTRAINTS):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(one)

    def _from_source(self, place: EnvironmentFolder, builder: Builder, lock: int) -> list[str]:
        """The requirements once more: only those that are built, each as its wheel."""
        made = interpreters.ask(place.python)
        python = made.version if made else ""

        def run(step: InstallCommand, environment: Mapping[str, str], building: int) -> None:
            self._run(step, lock, building, environment=environment)

        def waits(package: str) -> None:
            self._progress(f"environment {self._name}: another job on this machine is building {package}")

        target = wheels.WheelTarget(self._wanted, builder, place.folder, python, run, self._log.say, waits)
        return [wheels.line(line, target) for line in self._wanted.requirements]

    def _run(self, step: InstallCommand, *kept: int, environment: Mapping[str, str] | None = None) -> None:
        at = self._log.size()
        began = time.monotonic()

        def meanwhile() -> None:
            line = self._log.last_line(at)
            told = f": {line[:120]}" if line else ""
            self._progress(f"environment {self._name}: {step.tool}, {time.monotonic() - began:.0f} s{told}")

        variables = install_commands.tool_environment() if environment is None else environment
        command = TaskCommand(
            step.argv, "/", {**variables, **step.variables}, self._log.path, kept=kept, meanwhile=meanwhile
        )
        code = self._node_tasks.run(NODE_TASK, command)
        if code:
            said = self._log.read(at, _READ)
            fix = f"All that it said: {self._log.told_by}"
            what = install_errors.explain(self._wanted, step.tool, said, code)
            raise (UnreachableError if install_errors.is_passing(step.tool, said) else RefusedError)(what, fix=fix)

    def _told(self, place: EnvironmentFolder, builder: Builder) -> dict[str, object]:
        """What is written down of it. Raises RefusedError when no interpreter came out."""
        made = interpreters.ask(place.python)
        if made is None:
            raise RefusedError(f"environment {self._name}: {builder.tool} made no Python that runs in {place.folder}")
        found = _look(place, made.version, self._wanted)
        return {
            "name": self._name,
            "key": self._wanted.key,
            "tool": builder.tool,
            "python": made.version,
            "digest": found.digest,
            "size": size_of(place.folder),
            "requirements": list(self._wanted.requirements),
        }


def _write(path: str, lines: Sequence[str]) -> None:
    """The requirements, and beside them what constrains them. Lines keep their numbers."""
    constraints = [line.removeprefix(CONSTRAINT) for line in lines if line.startswith(CONSTRAINT)]
    beside, is_named = path + _CONSTRAINTS, False
    with open(path, "w", encoding="utf-8") as file:
        for line in lines:
            is_one = line.startswith(CONSTRAINT)
            told = line if not is_one else "" if is_named else f"{CONSTRAINT}{beside}"
            is_named = is_named or is_one
            file.write(f"{told}\n")
    if constraints:
        with open(beside, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in constraints)


def _look(place: EnvironmentFolder, python: str, wanted: PythonEnvironment) -> Fingerprint:
    asked = [normal(match) for line in wanted.requirements if (match := install_errors.name_of(line))]
    return fingerprint(python, installed(site_folders(place.folder)), asked)
