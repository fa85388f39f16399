"""Provides an environment on this node: finds it, waits for the agent that builds it, or builds it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from drumbeat.model.errors import RefusedError, StorageError, UnreachableError
from drumbeat.model.failpoints import failpoint
from drumbeat.model.plan import CONSTRAINT, PythonEnvironment
from drumbeat.model.python_fingerprint import Fingerprint
from drumbeat.node.environments import install_commands, install_errors, install_progress, interpreters, wheels
from drumbeat.node.environments.folders import EnvironmentFolder
from drumbeat.node.environments.garbage_collection import collect, folder_size
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
    """The folder, shared by all jobs; each has its own layer in front (`job_layer.py`)."""
    fingerprint: Fingerprint


class OtherNodes(Protocol):
    """Other nodes, which take over what this one has made, and from which it takes over what they have."""

    def receive(self, place: EnvironmentFolder, name: str, progress: Callable[[str], None]) -> dict[str, Any] | None:
        """Brings the files of an environment, and returns its record. None = this node makes it."""
        ...

    def report(self, progress: str) -> None:
        """How far this node is in making it."""
        ...

    def give_up(self) -> None:
        """Lets another node make it, because this one couldn't."""
        ...

    def hand_on(self, place: EnvironmentFolder, record: dict[str, Any]) -> None:
        """Lets other nodes have what this one has made. Doesn't wait."""
        ...

    def offer_again(self, place: EnvironmentFolder, record: dict[str, Any]) -> None:
        """Lets other nodes have what this one has found made. Doesn't wait."""
        ...


class EnvironmentBuilder:
    """Builds the environment of one attempt, whose folder is `root`. progress: receives messages. exchange: None = this
    node makes what it lacks.
    """

    def __init__(  # noqa: PLR0913 (parts of one agent)
        self,
        wanted: PythonEnvironment,
        root: str,
        log: NodeLog,
        node_tasks: NodeTasks,
        progress: Callable[[str], None],
        exchange: OtherNodes | None = None,
    ) -> None:
        self._wanted, self._root, self._log, self._node_tasks = wanted, root, log, node_tasks
        self._name = wanted.name
        self._progress, self._exchange = progress, exchange
        self._place: EnvironmentFolder | None = None
        """The folder that is being built."""
        self._earlier_failure: dict[str, Any] | None = None
        """The failure that was recorded before this build."""

    def provide(self) -> BuiltEnvironment:
        """Returns the environment, pinned for this attempt. Raises RefusedError when it can't be built,
        UnreachableError when an index can't be reached.
        """
        python = None if self._wanted.conda else interpreters.find(self._wanted.python, self._name)
        builder = install_commands.choose(self._wanted, python)
        place = EnvironmentFolder(
            os.path.join(os.path.abspath(cache_folders.folder("environments")), builder.key(self._wanted))
        )
        self._earlier_failure = place.failed()
        is_new = False
        try:
            while (environment := self._use(place)) is None:
                with place.held(shared=False, waits=lambda: self._waits(place)) as lock:
                    if place.made() is None and lock is not None:
                        self._make(place, builder, lock)
                        is_new = True
            if self._exchange is not None and not is_new and (record := place.made()):
                self._exchange.offer_again(place, record)
        except OSError as error:
            raise StorageError(
                f"environment {self._name} can't be written: {error.strerror or error}",
                where=str(error.filename or place.folder),
                fix="Free space or make the folder writable; DRUMBEAT_CACHE sets another folder.",
            ) from error
        return environment

    def _use(self, place: EnvironmentFolder) -> BuiltEnvironment | None:
        with place.held(shared=True, waits=lambda: self._waits(place)):
            record = place.made()
            if record is None:
                return None
            place.use(self._root)
        fingerprint = _look(place, str(record["python"]), self._wanted)
        if fingerprint.digest != record["digest"]:
            self._log.say(
                f"environment {self._name} has changed since it was built: something was installed into {place.folder}"
            )
        return BuiltEnvironment(place.folder, fingerprint)

    def _waits(self, place: EnvironmentFolder) -> None:
        progress = place.progress()
        suffix = f": {progress}" if progress else ""
        self._progress(f"environment {self._name}: another job on this machine is building it{suffix}")

    # --- building it
    # ----------------------------------------------------------------------------------------------------
    def _make(self, place: EnvironmentFolder, builder: Builder, lock: int) -> None:
        """Takes the environment over from another node, or builds it from scratch. The caller holds the exclusive
        lock.
        """
        self._share_failure(place)
        if self._exchange is None:
            self._build(place, builder, lock)
        elif record := self._receive(place, self._exchange):
            place.mark_made(record)
            failpoint("environment.made")
        else:
            try:
                self._build(place, builder, lock)
            except BaseException:
                self._exchange.give_up()
                raise
            if record := place.made():
                self._exchange.hand_on(place, record)
        for folder in collect(os.path.dirname(place.folder), time.time()):
            self._log.say(f"removed {folder}, which was unused")

    def _receive(self, place: EnvironmentFolder, exchange: OtherNodes) -> dict[str, Any] | None:
        place.unmake()
        return exchange.receive(place, self._name, self._progress)

    def _build(self, place: EnvironmentFolder, builder: Builder, lock: int) -> None:
        """Builds the environment from scratch."""
        self._place = place
        self._progress(f"environment {self._name}: building it with {builder.tool}")
        with_python = f" and Python {builder.python.version}" if builder.python else ""
        self._log.say(f"building environment {self._name} with {builder.tool}{with_python} ({builder.why})")
        began = time.monotonic()
        place.unmake()
        failpoint("environment.begun")
        try:
            self._run_all(place, builder, lock)
        except UnreachableError:  # The waiting agents may succeed.
            place.unmake()
            raise
        except RefusedError as error:
            place.unmake()
            place.mark_failed(error.what, self._log.tail(_TAIL_LINES))
            raise
        failpoint("environment.installed")
        place.mark_made(self._record(place, builder))
        failpoint("environment.made")
        self._log.say(f"environment {self._name} was built in {time.monotonic() - began:.1f} s")

    def _share_failure(self, place: EnvironmentFolder) -> None:
        """Raises the failure of another agent's build that this one waited for, instead of trying the same again."""
        failure = place.failed()
        if failure and failure != self._earlier_failure:
            self._log.say("another job on this machine failed to build the same environment:")
            self._log.add(failure["tail"])
            raise RefusedError(failure["what"])

    def _run_all(self, place: EnvironmentFolder, builder: Builder, lock: int) -> None:
        requirements, wanted = f"{place.folder}.requirements.txt", self._wanted
        # Line numbers stay the same, because pip's errors refer to them.
        first = ["" if wheels.find_build(line, wanted) else line for line in wanted.requirements]
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
        """Builds the requirements that need it; returns the requirements, with those replaced by their wheels."""
        made = interpreters.ask(place.python)
        python = made.version if made else ""

        def run(step: InstallCommand, environment: Mapping[str, str], building: int) -> None:
            self._run(step, lock, building, environment=environment)

        def waits(package: str) -> None:
            self._progress(f"environment {self._name}: another job on this machine is building {package}")

        target = wheels.WheelTarget(self._wanted, builder, place.folder, python, run, self._log.say, waits)
        return [wheels.line(line, target) for line in self._wanted.requirements]

    def _run(self, step: InstallCommand, *kept: int, environment: Mapping[str, str] | None = None) -> None:
        at, before = self._log.size(), self._packages()
        began = time.monotonic()

        def meanwhile() -> None:
            line = self._log.last_line(at)
            suffix = f": {line[:120]}" if line else ""
            done = install_progress.describe(step.tool, self._log.read(at, _READ), self._packages(), before)
            how_far = ", ".join(filter(None, (step.tool, done, f"{time.monotonic() - began:.0f} s")))
            self._report(how_far)
            self._progress(f"environment {self._name}: {how_far}{suffix}")

        variables = install_commands.tool_environment() if environment is None else environment
        command = TaskCommand(
            step.argv, "/", {**variables, **step.variables}, self._log.path, kept=kept, meanwhile=meanwhile
        )
        code = self._node_tasks.run(NODE_TASK, command)
        if code:
            output = self._log.read(at, _READ)
            fix = f"Full output: {self._log.told_by}"
            what = install_errors.explain(self._wanted, step.tool, output, code)
            raise (UnreachableError if install_errors.is_transient(step.tool, output) else RefusedError)(what, fix=fix)

    def _packages(self) -> set[str]:
        """The names of the packages that are installed so far."""
        return set(installed(site_folders(self._place.folder))) if self._place else set()

    def _report(self, how_far: str) -> None:
        """Tells those that wait, on this machine and on others."""
        if self._place is not None:
            self._place.report(how_far)
        if self._exchange is not None:
            self._exchange.report(how_far)

    def _record(self, place: EnvironmentFolder, builder: Builder) -> dict[str, object]:
        """The record of the built environment. Raises RefusedError when no interpreter was installed."""
        made = interpreters.ask(place.python)
        if made is None:
            raise RefusedError(
                f"environment {self._name}: {builder.tool} installed no working Python in {place.folder}"
            )
        fingerprint = _look(place, made.version, self._wanted)
        return {
            "name": self._name,
            "key": self._wanted.key,
            "tool": builder.tool,
            "python": made.version,
            "digest": fingerprint.digest,
            "size": folder_size(place.folder),
            "requirements": list(self._wanted.requirements),
        }


def _write(path: str, lines: Sequence[str]) -> None:
    """Writes the requirements and, beside them, their constraints. Lines keep their numbers."""
    constraints = [line.removeprefix(CONSTRAINT) for line in lines if line.startswith(CONSTRAINT)]
    beside, is_named = path + _CONSTRAINTS, False
    with open(path, "w", encoding="utf-8") as file:
        for line in lines:
            is_one = line.startswith(CONSTRAINT)
            entry = line if not is_one else "" if is_named else f"{CONSTRAINT}{beside}"
            is_named = is_named or is_one
            file.write(f"{entry}\n")
    if constraints:
        with open(beside, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in constraints)


def _look(place: EnvironmentFolder, python: str, wanted: PythonEnvironment) -> Fingerprint:
    asked = [normal(match) for line in wanted.requirements if (match := install_errors.project_name(line))]
    return fingerprint(python, installed(site_folders(place.folder)), asked)
