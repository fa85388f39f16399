"""Scans of models for pickles that do harm when they are loaded, by picklescan (extra `scan`)."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGE = "picklescan"
TIMEOUT_S = 3600
MAX_NAMES = 20
"""Maximum number of findings that are kept."""

INSTALL = "pip install 'drumbeat[scan]'"


@dataclass(frozen=True)
class Scan:
    """What a scan found. state: `clean`, `suspicious`, `dangerous` or `unscanned`. names: `path: module.name`."""

    state: str
    scanner: str = ""
    names: tuple[str, ...] = ()
    problem: str = ""

    @property
    def sentence(self) -> str:
        """The finding in words."""
        if self.state == "unscanned":
            return f"not scanned for harmful pickles: {self.problem}"
        if self.state == "clean":
            return f"nothing known was found ({self.scanner})"
        return f"{self.state}: {', '.join(self.names)} ({self.scanner})"

    @property
    def document(self) -> dict[str, Any]:
        """The entry of a statement."""
        return {"state": self.state, "scanner": self.scanner, "names": list(self.names), "sentence": self.sentence}


def scan(root: Path, paths: Sequence[str]) -> Scan:
    """Scans files below a folder; without paths the file itself. A scan that fails is a result."""
    try:
        scanner = f"{PACKAGE} {importlib.metadata.version(PACKAGE)}"
    except importlib.metadata.PackageNotFoundError:
        return Scan("unscanned", problem=f"{PACKAGE} isn't installed on the server ({INSTALL})")
    places = {str(root / path): path for path in paths} if root.is_dir() else {str(root): root.name}
    command = [sys.executable, "-P", "-m", "drumbeat.server.models.scan_program"]
    try:
        ended = subprocess.run(
            command, input=json.dumps(list(places)), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        if ended.returncode:
            last = ended.stderr.strip().rpartition("\n")[2]
            return Scan("unscanned", scanner, problem=f"{scanner} failed: {last or f'exit code {ended.returncode}'}")
        globals_by_place: dict[str, list[tuple[str, str]]] = json.loads(ended.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return Scan("unscanned", scanner, problem=f"{scanner} failed: {error}")
    return _result(scanner, {places[place]: names for place, names in globals_by_place.items()})


def _result(scanner: str, globals_by_path: dict[str, list[tuple[str, str]]]) -> Scan:
    for state in ("dangerous", "suspicious"):
        names = [
            f"{path}: {name}"
            for path, each in sorted(globals_by_path.items())
            for safety, name in each
            if safety == state
        ]
        if names:
            more = [f"and {len(names) - MAX_NAMES} more"] if len(names) > MAX_NAMES else []
            return Scan(state, scanner, (*names[:MAX_NAMES], *more))
    return Scan("clean", scanner)
