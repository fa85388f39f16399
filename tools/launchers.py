"""DeepSpeed, accelerate and Lightning for tests and the matrix: drumbeat's own `deepspeed` environment, made once.

A job that does nothing has it made below `.cache/drumbeat`. DeepSpeed's operator for CPUs is compiled once, below
`.cache/torch_extensions`, which takes minutes; jobs are told of both by variables.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from drumbeat import Client

CACHE = Path(__file__).parents[1] / ".cache"
OPERATORS = CACHE / "torch_extensions"
_NOTE = CACHE / "launchers"
PATIENCE_S = 1500
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
    """The environment's."""
    CACHE.mkdir(exist_ok=True)
    with _NOTE.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (_NOTE.exists() and (Path(_NOTE.read_text()) / "bin" / "deepspeed").exists()):
            _NOTE.unlink(missing_ok=True)
            folder = _make()
            _compile(folder)
            _NOTE.write_text(str(folder))
        return Path(_NOTE.read_text())


def _make() -> Path:
    """Has drumbeat make the environment; its folder."""
    with tempfile.TemporaryDirectory(prefix="drumbeat-launchers-") as folder:
        (Path(folder) / "code").mkdir()
        before = os.environ.get("DRUMBEAT_CACHE")
        os.environ["DRUMBEAT_CACHE"] = str(CACHE / "drumbeat")  # The server that is started hands it on to its agents.
        client = Client(home=Path(folder) / "home")
        try:
            command = "python -c 'import sys; print(sys.prefix)'"
            job = {"command": command, "code": f"{folder}/code", "environment": "deepspeed"}
            ended = client.wait(client.submit(job).name, PATIENCE_S)
            if ended is None or ended.state != "completed":
                raise LookupError(f"the environment can't be made: {ended.sentence if ended else 'it takes too long'}")
            said = "".join(piece.text for piece in client.logs(ended.name) if piece.rank >= 0)
            return Path(said.split()[-1])
        finally:
            client.stop(force=True)
            client.close()
            _restore("DRUMBEAT_CACHE", before)


def _restore(name: str, value: str | None) -> None:
    if value is None:
        del os.environ[name]
    else:
        os.environ[name] = value


def _compile(folder: Path) -> None:
    shutil.rmtree(OPERATORS, ignore_errors=True)  # A compilation that was broken off leaves a lock for ever.
    path = f"{folder}/bin:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TORCH_EXTENSIONS_DIR": str(OPERATORS), "DS_ACCELERATOR": "cpu"}
    command = [str(folder / "bin" / "python"), "-c", _COMPILE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["?"])[-1]
        raise LookupError(f"DeepSpeed's operator can't be compiled: {last[:200]}")
