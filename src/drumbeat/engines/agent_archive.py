"""The agent as one file: a zip application of the packages that need only the standard library, named by its hash."""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import drumbeat

ROOMS = ("model", "launchers", "node", "parallel", "rank", "scoring", "train")
"""The packages of the agent itself, and those that it gives to the ranks."""
_START = """\
import runpy
import sys

if sys.version_info < (3, 11):
    sys.exit(f"drumbeat needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}")
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""
_LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""A fixed time of all entries, so that equal sources make equal bytes."""


@dataclass(frozen=True)
class AgentArchive:
    """The archive's content. `python -I FILE MODULE …` runs one of its modules."""

    content: bytes
    sha256: str

    @property
    def name(self) -> str:
        """The file's name."""
        return f"agent-{self.sha256[:16]}.pyz"


@cache
def agent_archive() -> AgentArchive:
    """The agent of the drumbeat that is running."""
    package = Path(drumbeat.__file__).parent
    sources = [package / "__init__.py", package / "_version.py"]
    sources += [file for room in ROOMS for file in sorted((package / room).rglob("*.py"))]
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "__main__.py", _START.encode())
        for file in sources:
            _add(archive, f"drumbeat/{file.relative_to(package).as_posix()}", file.read_bytes())
    content = written.getvalue()
    return AgentArchive(content, hashlib.sha256(content).hexdigest())


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _LONG_AGO)
    entry.external_attr = 0o644 << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)
