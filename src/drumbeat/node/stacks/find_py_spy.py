"""Finds py-spy on a node: beside its own Python, on PATH, in the job's environment, or a copy of the server's.

The copy is in the node's cache under the hash of its content.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import platform
import secrets
import shutil
import sys
import threading
import time
from collections.abc import Iterable

from drumbeat.model.agent import Enrolment
from drumbeat.model.errors import DrumbeatError
from drumbeat.model.stacks import DIGEST_HEADER
from drumbeat.model.stacks import PY_SPY as NAME
from drumbeat.node.platform import cache_folders
from drumbeat.node.platform.server_link import ServerLink

RETRY_S = 600.0
"""After this time the search for a missing program is repeated."""


class Search:
    """Finds the program once; repeats a failed search only after a while. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._path, self._problem, self._failed_at = "", "", -math.inf

    def find(self, enrolment: Enrolment, interpreters: Iterable[str]) -> tuple[str, str]:
        """Returns the path of the program and "", or "" and the reason.

        interpreters: executables of the ranks' Pythons.
        """
        with self._lock:
            if os.access(self._path, os.X_OK):
                return self._path, ""
            if time.monotonic() - self._failed_at >= RETRY_S:
                self._path, self._problem = _find(enrolment, interpreters)
                self._failed_at = -math.inf if self._path else time.monotonic()
            return self._path, self._problem


def _find(enrolment: Enrolment, interpreters: Iterable[str]) -> tuple[str, str]:
    if own := find_here(interpreters):
        return own, ""
    try:
        return fetch_copy(ServerLink(enrolment)), ""
    except (DrumbeatError, OSError) as error:
        if kept := _kept():
            return kept, ""
        return "", f"py-spy isn't installed on the node, and the server has none for it: {error}"


def find_here(interpreters: Iterable[str] = ()) -> str:
    """Returns the path of a py-spy that is installed on this machine, "" = there is none."""
    for folder in (os.path.dirname(sys.executable), *map(os.path.dirname, interpreters)):
        if os.access(f"{folder}/{NAME}", os.X_OK):
            return f"{folder}/{NAME}"
    return shutil.which(NAME) or ""


def _folder() -> str:
    return cache_folders.folder("tools")


def _kept() -> str:
    """Returns an earlier copy, "" = none."""
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(_folder())):
            if name.startswith(f"{NAME}-") and "." not in name:
                return f"{_folder()}/{name}"
    return ""


def fetch_copy(link: ServerLink) -> str:
    """Returns the path of the server's py-spy on this node, fetched if missing. Raises OSError, too."""
    with link.tool(NAME, platform.machine()) as response:
        digest = response.headers.get(DIGEST_HEADER, "")
        path = f"{_folder()}/{NAME}-{digest[:32]}"
        if not os.path.exists(path):
            _write(path, response.read(), digest)
    return path


def _write(path: str, content: bytes, digest: str) -> None:
    if hashlib.sha256(content).hexdigest() != digest:
        raise OSError(f"{NAME} from the server arrived damaged")
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    part = f"{path}.{secrets.token_hex(4)}.part"
    with open(part, "wb", opener=lambda name, how: os.open(name, how, 0o700)) as file:
        file.write(content)
    os.replace(part, path)
