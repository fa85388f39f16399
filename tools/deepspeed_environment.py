"""DeepSpeed, accelerate and Lightning for tests and the matrix: drumbeat's own `deepspeed` environment, made once.

DeepSpeed's operator for CPUs is compiled once, below `.cache/torch_extensions`, which takes minutes; jobs are told of
it, and of the environment, by variables.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import time
from pathlib import Path

from tools import curated_environments
from tools.kept_folder import KEPT

OPERATORS = KEPT / "torch_extensions"
_NOTE = KEPT / "launchers"
PATIENCE_S = 1500
LOADED_S = 600.0
"""How long loading the compiled operator may take: its lock is held no longer."""
_COMPILE = "from deepspeed.ops.op_builder.cpu import ShareMemCommBuilder as B; B().load()"


def missing() -> str:
    """What this machine lacks to compile, "" = nothing."""
    return "" if shutil.which("g++") else "needs a C++ compiler: apt-get install g++"


def shell() -> str:
    """What a job's command begins with, for the compute's own programs come first on its PATH."""
    return f"export PATH={_folder()}/bin:$PATH"


def variables() -> dict[str, str]:
    """What a job's variables must say so that its ranks have them. Raises LookupError when they can't be had."""
    return {"PATH": f"{_folder()}/bin:/usr/local/bin:/usr/bin:/bin", "TORCH_EXTENSIONS_DIR": str(OPERATORS)}


def _folder() -> Path:
    """The environment's, with the operator compiled for it."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with _NOTE.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        there = curated_environments.folder("deepspeed")
        if not (_NOTE.exists() and _NOTE.read_text() == str(there)):
            _NOTE.unlink(missing_ok=True)
            _compile(there)
            _NOTE.write_text(str(there))
        _unlock()
        return there


def _unlock() -> None:
    """A rank that is killed while it loads the operator leaves torch's lock, and each later one waits for that."""
    for lock in OPERATORS.glob("*/lock"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - lock.stat().st_mtime > LOADED_S:
                lock.unlink()


def _compile(folder: Path) -> None:
    shutil.rmtree(OPERATORS, ignore_errors=True)  # A compilation that was broken off leaves a lock for ever.
    path = f"{folder}/bin:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TORCH_EXTENSIONS_DIR": str(OPERATORS), "DS_ACCELERATOR": "cpu"}
    command = [str(folder / "bin" / "python"), "-c", _COMPILE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["?"])[-1]
        raise LookupError(f"DeepSpeed's operator can't be compiled: {last[:200]}")
