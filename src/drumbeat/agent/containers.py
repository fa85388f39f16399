"""What of containers is the node's: the engine that it has, the image, and what a round left of them."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Callable

from drumbeat.launch.containers import LABEL, MOST_PROCESSES, Engine
from drumbeat.protocol.errors import RefusedError

KINDS = ("podman", "docker")
_ASK_S = 60.0
_FIX = "Install Podman there (Debian: apt-get install podman), or give the job a conda_file instead of an image."


def find() -> Engine:
    """The first engine that works here. Raises RefusedError when there is none, with what each of them said."""
    said: list[str] = []
    for kind in KINDS:
        program = shutil.which(kind)
        if program is None:
            continue
        trouble = _trouble(program)
        if not trouble:
            return _engine(program, kind)
        said.append(f"{kind} says: {trouble}")
    what = "this node can't run containers: " + ("; ".join(said) or "it has neither Podman nor Docker")
    raise RefusedError(what, where="environment.image", fix=_FIX)


def fetch(engine: Engine, image: str, say: Callable[[str], None]) -> None:
    """Has the image on this node. say: is told each line of the engine's. Raises RefusedError with its last one."""
    if _ask(engine, "image", "inspect", "--format", "{{.Id}}", image).returncode == 0:
        return
    say(f"pulling image {image}")
    last = "it said nothing"
    with subprocess.Popen(
        [engine.program, "pull", image], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        encoding="utf-8", errors="replace",
    ) as pull:  # fmt: skip
        for line in pull.stdout or ():
            if line.strip():
                last = line.strip()
                say(last)
    if pull.returncode:
        what = f"{engine.kind} can't pull image {image}: {last}"
        fix = f"Try it on the node: {engine.kind} pull {image}"
        raise RefusedError(what, where="environment.image", fix=fix)


def clear(engine: Engine, root: str) -> None:
    """Removes what is left of the containers of this attempt's folder: nothing of them runs any more."""
    found = _ask(engine, "ps", "--all", "--quiet", "--filter", f"label={LABEL}={root}").stdout.split()
    if found:
        _ask(engine, "rm", "--force", *found)


def _engine(program: str, kind: str) -> Engine:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    processes, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    return Engine(
        program,
        kind,
        user=f"{os.geteuid()}:{os.getegid()}",
        is_rootless=kind == "podman" and os.geteuid() != 0,
        files=files,
        processes=MOST_PROCESSES if processes < 0 else min(processes, MOST_PROCESSES),
    )


def _trouble(program: str) -> str:
    """Why the engine doesn't work here, "" = it does."""
    try:
        done = subprocess.run(
            [program, "info", "--format", "{{.Host}}"] if program.endswith("podman") else [program, "info"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_ASK_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    said = done.stdout.decode(errors="replace").strip()
    return "" if done.returncode == 0 else (said.splitlines() or ["nothing"])[-1][:300]


def _ask(engine: Engine, *words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [engine.program, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            timeout=_ASK_S, check=False, encoding="utf-8", errors="replace",
        )  # fmt: skip
    except subprocess.SubprocessError:
        return subprocess.CompletedProcess(words, 1, "", "")
