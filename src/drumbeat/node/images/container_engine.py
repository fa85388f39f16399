"""The container engine of a node: requests to it, and the removal of a round's containers."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import resource
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drumbeat.launchers.container_command import (
    CONTAINER_ENGINES,
    LABEL,
    MAX_PROCESSES,
    RANK_LABEL,
    ContainerEngine,
    run_once,
)
from drumbeat.model.errors import EngineError, RefusedError
from drumbeat.node.platform import child_processes
from drumbeat.node.platform.files import write_whole

DOCKER_HUB = "docker.io"
"""The registry of images whose name has no host, as with Docker."""
NOTE = "containers.json"
"""A file beside an attempt's folder with the commands that remove its containers. It isn't in the folder, where a
container may write.
"""

_ASK_S = 60.0
_SCRATCH = "{{.Store.ImageCopyTmpDir}}"
GIVE_UP_S = 120.0
"""How long an engine whose containers outlive the supervisor may leave open whether they are gone."""
_CLEAR_S, _AGAIN_S = 15.0, 3.0
_PAUSES = (0.0, 0.2, 0.5, 1.0, 2.0)
"""The pauses after each try to remove containers: right after its monitor was killed, an engine may not see that a
container is dead.
"""
_TIMED_OUT = 124
_SETTINGS = ("CONTAINER", "DOCKER_", "STORAGE_", "XDG_", "HOME", "PATH")
"""Prefixes of the variables by which an engine finds its storage."""
_UNAUTHORIZED = re.compile(r"unauthorized|authentication required|denied|no basic auth", re.IGNORECASE)
_MISSING = re.compile(r"manifest unknown|name unknown|not found|not known to registry", re.IGNORECASE)
_FIX = "Install Podman there (Debian: apt-get install podman), or give the job a conda_file instead of an image."


def find() -> ContainerEngine:
    """The first engine that works here. Raises RefusedError with each one's error if there is none."""
    reasons: list[str] = []
    for kind in CONTAINER_ENGINES:
        program = shutil.which(kind)
        if program is None:
            continue
        trouble = _trouble(program)
        if not trouble:
            return _engine(program, kind)
        reasons.append(f"{kind} says: {trouble}")
    what = "this node can't run containers: " + ("; ".join(reasons) or "it has neither Podman nor Docker")
    raise RefusedError(what, where="environment.image", fix=_FIX)


@dataclass(frozen=True)
class Access:
    """Access to registries. folder: the engine's settings with the credentials, "" = none. insecure: addresses without
    TLS, or whose certificate isn't verified. scratch: the folder for partial downloads, "" = the engine's own.
    """

    folder: str = ""
    insecure: tuple[str, ...] = ()
    scratch: str = ""

    def variables(self) -> dict[str, str]:
        """The variables of the engine's program."""
        scratch = {"TMPDIR": self.scratch} if self.scratch else {}
        if not self.folder:
            return scratch
        return {**scratch, "REGISTRY_AUTH_FILE": f"{self.folder}/config.json", "DOCKER_CONFIG": self.folder}

    def is_insecure(self, image: str) -> bool:
        """Whether the image's registry is one of `insecure`."""
        return any(image.startswith(f"{address}/") for address in self.insecure)


def fetch(engine: ContainerEngine, image: str, access: Access, say: Callable[[str], None]) -> None:
    """Fetches the image unless the node has it. say: receives each line of the engine's output. Raises RefusedError
    with its last one.
    """
    if has(engine, image):
        return
    say(f"pulling image {image}")
    if answer := pull(engine, image, access, say):
        what = f"{engine.kind} can't pull image {image}: {answer}"
        raise RefusedError(what, where="environment.image", fix=_fix(engine, "pull", image, answer))


def pull(engine: ContainerEngine, image: str, access: Access, say: Callable[[str], None]) -> str:
    """Pulls an image. Returns why that failed, in the engine's last line; "" = the node has it."""
    return _transfer(engine, "pull", image, access, say)


def push(engine: ContainerEngine, image: str, pushed_as: str, access: Access, say: Callable[[str], None]) -> None:
    """Pushes an image of the node's to a registry, by this name. Raises RefusedError."""
    say(f"pushing image {image} as {pushed_as}")
    ask(engine, "tag", image, pushed_as)
    answer = _transfer(engine, "push", pushed_as, access, say)
    ask(engine, "image", "rm", pushed_as)
    if answer:
        what = f"{engine.kind} can't push image {pushed_as}: {answer}"
        raise RefusedError(what, where="environment.build", fix=_fix(engine, "push", pushed_as, answer))


def take_name(engine: ContainerEngine, image: str, name: str) -> None:
    """Renames a pulled image."""
    ask(engine, "tag", image, name)
    ask(engine, "image", "rm", image)


def is_missing(answer: str) -> bool:
    """Whether a registry has answered that it doesn't have the image."""
    return bool(_MISSING.search(answer))


def _transfer(engine: ContainerEngine, verb: str, image: str, access: Access, say: Callable[[str], None]) -> str:
    last = "it printed nothing"
    unchecked = ["--tls-verify=false"] if engine.kind == "podman" and access.is_insecure(image) else []
    with child_processes.started(
        [engine.program, verb, *unchecked, image], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", env={**os.environ, **access.variables()},
    ) as transfer:  # fmt: skip
        for line in transfer.stdout or ():
            if line.strip():
                last = line.strip()
                say(last)
    return last if transfer.returncode else ""


def _fix(engine: ContainerEngine, verb: str, image: str, answer: str) -> str:
    if _UNAUTHORIZED.search(answer):
        return "Add the credentials of that registry: drumbeat registry create -f FILE (docs/containers.md)"
    return f"Try it on the node: {engine.kind} {verb} {image}"


def full_name(engine: ContainerEngine, image: str) -> str:
    """Returns the image's name with its registry, which Podman may need, as it has no default registry without
    settings.

    The short name of an image that the engine has stays: it may have been built on the node.
    """
    head, slash, _ = image.partition("/")
    is_full = bool(slash) and (head == "localhost" or "." in head or ":" in head)
    if engine.kind != "podman" or is_full or has(engine, image):
        return image
    return f"{DOCKER_HUB}/{image if slash else f'library/{image}'}"


def has(engine: ContainerEngine, image: str) -> bool:
    """Whether the image is in the engine's storage."""
    return ask(engine, "image", "inspect", "--format", "{{.Id}}", image).returncode == 0


def remove(engine: ContainerEngine, image: str) -> bool:
    """Removes an image from the storage unless a container uses it; returns whether it is certainly gone."""
    ask(engine, "image", "rm", image)
    listed = ask(engine, "images", "--quiet", "--filter", f"reference={image}")
    return listed.returncode == 0 and not listed.stdout.strip()


def storage(engine: ContainerEngine) -> str:
    """The folder of the engine's images."""
    key = "{{.Store.GraphRoot}}" if engine.kind == "podman" else "{{.DockerRootDir}}"
    return ask(engine, "info", "--format", key).stdout.strip()


def inside(engine: ContainerEngine, image: str, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Runs a command in a container of the image that gets nothing of the node; returns its result."""
    return ask(engine, *run_once(engine, image, argv))


def note(engine: ContainerEngine, root: str) -> None:
    """Records, before containers of this attempt's folder start, how they are removed. Raises OSError."""
    if not _noted(root):
        settings = {name: value for name, value in os.environ.items() if name.startswith(_SETTINGS)}
        scratch = ""
        if engine.kind == "podman":
            own = ask(engine, "info", "--format", _SCRATCH).stdout.strip()
            scratch = f"{own}/drumbeat-{secrets.token_hex(6)}" if os.path.isdir(own) else ""
        write_whole(
            _note(root), json.dumps({"program": engine.program, "settings": settings, "scratch": scratch}), 0o600
        )


def scratch(engine: ContainerEngine, root: str) -> str:
    """A folder for the partial download of an engine that may be killed, which is large; "" = the engine has its own.

    Raises OSError.
    """
    note(engine, root)
    folder = _noted(root).get("scratch", "")
    if folder:
        os.makedirs(folder, 0o700, exist_ok=True)
        if os.lstat(folder).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "the folder belongs to another user", folder)
    return folder


def find_container(root: str, rank: int) -> tuple[str, str]:
    """The engine's program, and the id of the container of a rank of this attempt's folder.

    Raises EngineError.
    """
    record = _noted(root)
    if not record:
        raise EngineError("no container of this job runs on this node")
    labels = ("--filter", f"label={LABEL}={root}", "--filter", f"label={RANK_LABEL}={rank}")
    running = _asked(record["program"], ("ps", "--quiet", "--no-trunc", *labels)).stdout.split()
    if len(running) != 1:
        raise EngineError(f"the container of rank {rank} is unclear: {len(running)} containers match")
    return record["program"], running[0]


def clear(root: str) -> str:
    """Removes the remaining containers that were recorded for this attempt's folder.

    Returns "" if none certainly remains; else a message that says why.
    """
    return _Left(root).clear()


def clear_all(root: str, say: Callable[[str], None]) -> None:
    """Repeats `clear` until it succeeds; `say` receives the reason of the wait. Raises EngineError when it takes too
    long.
    """
    left, began = _Left(root), time.monotonic()
    while why := left.clear():
        if not left.may_run or time.monotonic() - began >= GIVE_UP_S:
            raise EngineError(why)
        say(why)
        time.sleep(_AGAIN_S)


class _Left:
    """The remaining containers of a round."""

    def __init__(self, root: str) -> None:
        self._root, self._record = root, _noted(root)
        self._kind = os.path.basename(self._record.get("program", ""))
        self._ids: list[str] = []
        """The containers that the engine listed last."""

    @property
    def may_run(self) -> bool:
        """Whether containers may still run: Docker's belong to its daemon; Podman's have ended with the supervisor."""
        return self._kind != "podman"

    def clear(self) -> str:
        """Does what the function `clear` says."""
        if not self._record:
            return ""
        if folder := self._record.get("scratch"):
            shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # The program may no longer exist.
            for pause in _PAUSES:
                code = self._remove()
                if code is None:
                    return ""
                if code == _TIMED_OUT:  # An engine that doesn't answer must not delay its callers for long.
                    break
                time.sleep(pause)
        return self._why()

    def _remove(self) -> int | None:
        """Removes the containers. Returns None if there was none, else the exit code of the last request."""
        listed = self._ask("ps", "--all", "--quiet", "--filter", f"label={LABEL}={self._root}")
        ids = listed.stdout.split()
        if not ids:
            return listed.returncode or None
        self._ids = ids
        return self._ask("rm", "--force", *ids).returncode

    def _ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        return _asked(self._record["program"], words, {**os.environ, **self._record["settings"]}, _CLEAR_S)

    def _why(self) -> str:
        if not self._ids:
            which = f"{self._kind} ps --all --filter label={LABEL}={self._root}"
            return f"{self._kind} doesn't say whether a container of this job remains: {which}"
        many, names = "s" if len(self._ids) > 1 else "", " ".join(self._ids)
        runs = ", which may still run" if self.may_run else ""
        return f"{self._kind} doesn't remove container{many} {names} of this job{runs}: {self._kind} rm --force {names}"


def _noted(root: str) -> dict[str, Any]:
    """The recorded settings, {} = none."""
    with contextlib.suppress(OSError, ValueError), open(_note(root), encoding="utf-8") as file:
        return json.load(file)
    return {}


def _note(root: str) -> str:
    return f"{os.path.dirname(root)}/{NOTE}"


def _engine(program: str, kind: str) -> ContainerEngine:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    processes, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    return ContainerEngine(
        program,
        kind,
        user=f"{os.geteuid()}:{os.getegid()}",
        is_rootless=kind == "podman" and os.geteuid() != 0,
        files=files,
        processes=MAX_PROCESSES if processes < 0 else min(processes, MAX_PROCESSES),
    )


def _trouble(program: str) -> str:
    """Why the engine doesn't work on this node, "" = it does."""
    try:
        words = [program, "info", "--format", "{{.Host}}"] if program.endswith("podman") else [program, "info"]
        done = child_processes.run(words, _ASK_S, is_merged=True)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    answer = done.stdout.decode(errors="replace").strip()
    return "" if done.returncode == 0 else (answer.splitlines() or ["nothing"])[-1][:300]


def ask(engine: ContainerEngine, *words: str) -> subprocess.CompletedProcess[str]:
    """The engine's answer; exit code 124 on a timeout."""
    return _asked(engine.program, words)


def _asked(
    program: str, words: Sequence[str], variables: Mapping[str, str] | None = None, within_s: float = _ASK_S
) -> subprocess.CompletedProcess[str]:
    try:
        done = child_processes.run([program, *words], within_s, env=variables)
    except subprocess.SubprocessError:
        return subprocess.CompletedProcess(words, _TIMED_OUT, "", "")
    return subprocess.CompletedProcess(words, done.returncode, done.stdout.decode(errors="replace"), "")
