"""What of containers is the node's: the engine that it has, what it is asked, and what a round left of them."""

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
"""Where an image comes from whose name begins with no host, as with Docker."""
NOTE = "containers.json"
"""Beside an attempt's folder: how what is left of its containers is removed. Not in it, where a container may write."""

_ASK_S = 60.0
_SCRATCH = "{{.Store.ImageCopyTmpDir}}"
GIVE_UP_S = 120.0
"""How long an engine whose containers outlive the supervisor may leave open whether they are gone."""
_CLEAR_S, _AGAIN_S = 15.0, 3.0
_PAUSES = (0.0, 0.2, 0.5, 1.0, 2.0)
"""After each try to remove containers: right after its monitor was killed an engine may not find one dead yet."""
_TIMED_OUT = 124
_SETTINGS = ("CONTAINER", "DOCKER_", "STORAGE_", "XDG_", "HOME", "PATH")
"""How the variables begin by which an engine finds its storage."""
_UNAUTHORIZED = re.compile(r"unauthorized|authentication required|denied|no basic auth", re.IGNORECASE)
_MISSING = re.compile(r"manifest unknown|name unknown|not found|not known to registry", re.IGNORECASE)
_FIX = "Install Podman there (Debian: apt-get install podman), or give the job a conda_file instead of an image."


def find() -> ContainerEngine:
    """The first engine that works here. Raises RefusedError when there is none, with what each of them said."""
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
    """How one gets images. folder: the engine's settings with the credentials in them, "" = none.

    insecure: addresses that are spoken to without TLS, or whose certificate isn't checked. scratch: where it keeps what
    is on its way, "" = in the engine's own folder.
    """

    folder: str = ""
    insecure: tuple[str, ...] = ()
    scratch: str = ""

    def variables(self) -> dict[str, str]:
        """What an engine's program is run with."""
        scratch = {"TMPDIR": self.scratch} if self.scratch else {}
        if not self.folder:
            return scratch
        return {**scratch, "REGISTRY_AUTH_FILE": f"{self.folder}/config.json", "DOCKER_CONFIG": self.folder}

    def is_insecure(self, image: str) -> bool:
        """Whether the image's registry is one of those."""
        return any(image.startswith(f"{address}/") for address in self.insecure)


def fetch(engine: ContainerEngine, image: str, access: Access, say: Callable[[str], None]) -> None:
    """Has the image on this node. say: is told each line of the engine's. Raises RefusedError with its last one."""
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
    """Gives an image that was pulled another name, in place of the one that it was pulled by."""
    ask(engine, "tag", image, name)
    ask(engine, "image", "rm", image)


def is_missing(answer: str) -> bool:
    """Whether a registry has answered that it doesn't have the image."""
    return bool(_MISSING.search(answer))


def _transfer(engine: ContainerEngine, verb: str, image: str, access: Access, say: Callable[[str], None]) -> str:
    last = "it said nothing"
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
        return "Give drumbeat the credentials of that registry: drumbeat registry create -f FILE (docs/containers.md)"
    return f"Try it on the node: {engine.kind} {verb} {image}"


def full_name(engine: ContainerEngine, image: str) -> str:
    """Returns the image's name with its registry, which Podman may need: without settings it has no default one.

    A short name of an image that the engine has, which may be one that was built on the node, stays.
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
    """Takes it out of the storage, unless a container is of it; gives whether it is there no more, for sure."""
    ask(engine, "image", "rm", image)
    listed = ask(engine, "images", "--quiet", "--filter", f"reference={image}")
    return listed.returncode == 0 and not listed.stdout.strip()


def storage(engine: ContainerEngine) -> str:
    """The folder that the engine has its images in."""
    key = "{{.Store.GraphRoot}}" if engine.kind == "podman" else "{{.DockerRootDir}}"
    return ask(engine, "info", "--format", key).stdout.strip()


def inside(engine: ContainerEngine, image: str, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """What a command says that is run in a container of the image, which sees nothing of the node."""
    return ask(engine, *run_once(engine, image, argv))


def note(engine: ContainerEngine, root: str) -> None:
    """Writes down, before containers of this attempt's folder are started, how they are removed. Raises OSError."""
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
    """A folder where an engine that is killed may leave what it had of an image, which is large; "" = it has its own.

    Raises OSError.
    """
    note(engine, root)
    folder = _noted(root).get("scratch", "")
    if folder:
        os.makedirs(folder, 0o700, exist_ok=True)
        if os.lstat(folder).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "it belongs to somebody else", folder)
    return folder


def container_of(root: str, rank: int) -> tuple[str, str]:
    """The engine's program, and the id of the container in which a rank of this attempt's folder runs.

    Raises EngineError.
    """
    record = _noted(root)
    if not record:
        raise EngineError("no container of this job runs here")
    labels = ("--filter", f"label={LABEL}={root}", "--filter", f"label={RANK_LABEL}={rank}")
    running = _asked(record["program"], ("ps", "--quiet", "--no-trunc", *labels)).stdout.split()
    if len(running) != 1:
        raise EngineError(f"the container of rank {rank} isn't known: {len(running)} may be it")
    return record["program"], running[0]


def clear(root: str) -> str:
    """Removes what is left of what was noted for this attempt's folder: none of its containers is to run on.

    "" = none is there, for sure; else a sentence that says why it isn't.
    """
    return _Left(root).clear()


def clear_all(root: str, say: Callable[[str], None]) -> None:
    """As `clear`, again and again; `say` is told what it waits for. Raises EngineError when that takes too long."""
    left, began = _Left(root), time.monotonic()
    while why := left.clear():
        if not left.may_run or time.monotonic() - began >= GIVE_UP_S:
            raise EngineError(why)
        say(why)
        time.sleep(_AGAIN_S)


class _Left:
    """What a round left of its containers."""

    def __init__(self, root: str) -> None:
        self._root, self._told = root, _noted(root)
        self._kind = os.path.basename(self._told.get("program", ""))
        self._known: list[str] = []
        """The last of them that the engine told."""

    @property
    def may_run(self) -> bool:
        """Docker's are its daemon's, whoever was killed; Podman's have ended with the supervisor."""
        return self._kind != "podman"

    def clear(self) -> str:
        """As the function of that name."""
        if not self._told:
            return ""
        if folder := self._told.get("scratch"):
            shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # The program may be gone by now.
            for pause in _PAUSES:
                code = self._remove()
                if code is None:
                    return ""
                if code == _TIMED_OUT:  # Whoever doesn't answer holds nobody up for long.
                    break
                time.sleep(pause)
        return self._why()

    def _remove(self) -> int | None:
        """None = there is none; else the exit code of what was asked last."""
        listed = self._ask("ps", "--all", "--quiet", "--filter", f"label={LABEL}={self._root}")
        found = listed.stdout.split()
        if not found:
            return listed.returncode or None
        self._known = found
        return self._ask("rm", "--force", *found).returncode

    def _ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        return _asked(self._told["program"], words, {**os.environ, **self._told["settings"]}, _CLEAR_S)

    def _why(self) -> str:
        if not self._known:
            which = f"{self._kind} ps --all --filter label={LABEL}={self._root}"
            return f"{self._kind} doesn't answer whether a container of this job is left: {which}"
        many, names = "s" if len(self._known) > 1 else "", " ".join(self._known)
        runs = ", which may run on" if self.may_run else ""
        return f"{self._kind} doesn't remove container{many} {names} of this job{runs}: {self._kind} rm --force {names}"


def _noted(root: str) -> dict[str, Any]:
    """{} = nothing."""
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
    """Why the engine doesn't work here, "" = it does."""
    try:
        words = [program, "info", "--format", "{{.Host}}"] if program.endswith("podman") else [program, "info"]
        done = child_processes.run(words, _ASK_S, is_merged=True)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    answer = done.stdout.decode(errors="replace").strip()
    return "" if done.returncode == 0 else (answer.splitlines() or ["nothing"])[-1][:300]


def ask(engine: ContainerEngine, *words: str) -> subprocess.CompletedProcess[str]:
    """What the engine answers; exit code 124 when it takes too long."""
    return _asked(engine.program, words)


def _asked(
    program: str, words: Sequence[str], variables: Mapping[str, str] | None = None, within_s: float = _ASK_S
) -> subprocess.CompletedProcess[str]:
    try:
        done = child_processes.run([program, *words], within_s, env=variables)
    except subprocess.SubprocessError:
        return subprocess.CompletedProcess(words, _TIMED_OUT, "", "")
    return subprocess.CompletedProcess(words, done.returncode, done.stdout.decode(errors="replace"), "")
