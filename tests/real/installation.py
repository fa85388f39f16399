"""An installation as a user makes it: the built wheel in an empty virtual environment, away from the checkout."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

from tools.kept_folder import KEPT
from tools.kept_programs import KeptProgram

from .started import provide

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements.lock"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]


def build_wheel(folder: Path) -> Path:
    """The wheel of this checkout, built in `folder`."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=120)
    (wheel,) = folder.glob("drumbeat-*.whl")
    return wheel


def download_dependencies(wheel: Path, folder: Path) -> Path:
    """The folder with the locked wheels of all that a server needs; downloaded once for each lock. Skips the test where
    no package index answers.
    """
    pins = folder / "pins.txt"
    pins.write_text(
        "".join(f"{pin}\n" for pin in re.findall(r"^[\w.\[\]-]+==[\w.!+-]+", LOCK.read_text(), re.MULTILINE))
    )
    key = hashlib.sha256(LOCK.read_bytes() + (ROOT / "pyproject.toml").read_bytes() + sys.version.encode())
    store = KEPT / f"wheels-{key.hexdigest()[:16]}"
    only = ["--only-binary", ":all:", "-c", str(pins), "-d", str(store)]
    provide(KeptProgram(store.name, ".", (*PIP, "download", *only, f"{wheel}[server]")))
    return store


@dataclass(frozen=True)
class Installation:
    """A virtual environment in `folder`, and the home of the server that it starts."""

    folder: Path
    home: Path

    @classmethod
    def empty(cls, folder: Path, home: Path) -> Installation:
        """A new one, with no package at all."""
        venv.create(folder)
        return cls(folder, home)

    def install(self, requirement: str, store: Path) -> None:
        """What `pip install` does, with the packages of `store` in place of an index."""
        python = str(self.folder / "bin" / "python")
        command = [*PIP, "--python", python, "install", "--no-index", "--find-links", str(store), requirement]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        subprocess.run(command, env=environment, cwd="/", check=True, capture_output=True, text=True, timeout=240)

    def run(self, program: str, *arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Runs one of its programs; nothing of this checkout is on the way."""
        environment = {
            "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin",
            "HOME": str(self.home.parent),
            "DRUMBEAT_HOME": str(self.home),
            "NO_COLOR": "1",
            "COLUMNS": "200",
        }
        return subprocess.run(
            [self.folder / "bin" / program, *map(str, arguments)], env=environment, cwd=cwd or "/",
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
