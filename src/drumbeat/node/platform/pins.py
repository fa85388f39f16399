"""Pins on what this node caches: a file for each attempt, which names its folder and counts while that exists.

Nodes may share a cache and can't see each other's folders, which may even have equal paths: those of pods do. So a pin
has the identity of each folder on the path to its attempt's, and the agent renews its pins (`PinRenewal`): a pin whose
folder isn't visible here counts while it is renewed. A pin of this machine from before its last start doesn't count.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drumbeat.node.host.machine import boot

RENEWAL_S = 60.0
"""How often an agent renews its pins."""
SILENT_S = 3600.0
"""How long a pin counts without renewal if its folder isn't visible: clocks of machines may differ by minutes."""

_LIST, _PART = "pins", ".new"
_END_S = 2.0
"""How long an unresponsive shared disk may delay the end of an agent."""


@dataclass(frozen=True)
class Pins:
    """The pins in `folder`. elsewhere_s: how long a pin of another machine by an earlier version counts, as those
    aren't renewed.
    """

    folder: str
    elsewhere_s: float

    def put(self, root: str, content: Mapping[str, Any]) -> None:
        """Writes the pin of the attempt in `root`, replacing an earlier one. Raises OSError."""
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        path = os.path.join(self.folder, _name(root))
        with contextlib.suppress(FileNotFoundError), open(f"{root}/{_LIST}", "ab") as file:
            file.write(os.fsencode(path) + b"\0")
        pin = {**content, "root": root, "way": _way(root), "host": socket.gethostname(), "boot": boot()}
        with open(path + _PART, "w", encoding="utf-8") as file:
            file.write(json.dumps(pin))  # In one piece: piecewise writing takes five times as long.
        # No sync: the pin needn't outlive a restart of the machine, as its attempt doesn't.
        os.replace(path + _PART, path)

    def read(self, now: float) -> list[dict[str, Any]]:
        """The valid pins, each with its `root`; the others are removed. Raises OSError."""
        pins: list[dict[str, Any]] = []
        with contextlib.suppress(FileNotFoundError):
            for entry in list(os.scandir(self.folder)):
                with contextlib.suppress(FileNotFoundError):
                    age_s = now - entry.stat().st_mtime
                    if entry.name.endswith(_PART) and age_s < SILENT_S:
                        continue  # It is being written.
                    pin = _read(entry.path)
                    if pin and self._counts(pin, age_s):
                        pins.append(pin)
                    else:
                        os.unlink(entry.path)
        return pins

    @staticmethod
    def belongs_to(pin: Mapping[str, Any], root: str) -> bool:
        """Whether the pin belongs to the attempt in `root` here, and not to another node's
        folder with the same path.
        """
        is_same = pin.get("root") == root and pin.get("host") == socket.gethostname()
        return is_same and ("way" not in pin or pin["way"][-1:] == _way(root)[-1:])

    def _counts(self, pin: Mapping[str, Any], age_s: float) -> bool:
        root, is_of_this_start = str(pin.get("root", "")), pin.get("boot") == boot()
        if "way" not in pin:
            is_here = is_of_this_start or pin.get("host") == socket.gethostname()
            return os.path.isdir(root) or (not is_here and age_s < self.elsewhere_s)
        if not is_of_this_start:
            return pin.get("host") != socket.gethostname() and age_s < SILENT_S
        way, here = pin["way"], _way(root)
        if here == way:
            return os.path.isdir(root)
        if len(here) < len(way) and here[-1] == way[len(here) - 1]:
            return False  # It is the folder that the attempt's agent saw, and the rest of the path is gone.
        # This is another folder at that path: a pod has its own folders, a Slurm job may have its own /tmp.
        return age_s < SILENT_S


class PinRenewal:
    """Renews the pins of the attempt in `root` in a thread, and removes them at the attempt's end."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Begins to renew pins, including later ones."""
        self._thread = threading.Thread(target=self._run, name="pins", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Removes the pins after the attempt's ranks have ended."""
        self._over.set()
        if self._thread:
            self._thread.join(_END_S)

    def _run(self) -> None:
        while True:
            renew(self._root)
            if self._over.wait(RENEWAL_S):
                break
        for path in _listed(self._root):
            with contextlib.suppress(OSError):
                os.unlink(path)


def renew(root: str) -> None:
    """Renews the pins of the attempt in `root`."""
    for path in _listed(root):
        with contextlib.suppress(OSError):  # The environment was rebuilt, or a shared disk is unavailable.
            os.utime(path)


def _listed(root: str) -> set[bytes]:
    """The pins of an attempt, by this agent or an earlier one."""
    with contextlib.suppress(OSError), open(f"{root}/{_LIST}", "rb") as file:
        return set(file.read().split(b"\0")) - {b""}
    return set()


def _name(root: str) -> str:
    """The name of an attempt's pin. It is unique even among other machines and other pods of this one."""
    which = f"{socket.gethostname()}\0{root}\0{_way(root)[-1]}"
    return hashlib.sha256(which.encode(errors="surrogateescape")).hexdigest()[:32]


def _way(path: str) -> list[list[int]]:
    """The identities of the folders on a path, from `/` to the last existing one."""
    way: list[list[int]] = []
    place = "/"
    for part in ["", *os.path.abspath(path).strip("/").split("/")]:
        place = os.path.join(place, part)
        try:
            status = os.stat(place)
        except OSError:
            break
        way.append([status.st_dev, status.st_ino])
    return way


def _read(path: str) -> dict[str, Any]:
    for _ in range(3):
        try:
            with open(path, encoding="utf-8") as file:
                content: dict[str, Any] = json.load(file)
                return content
        except ValueError:
            break
        except OSError as error:  # On NFS: its agent has just replaced it.
            if error.errno != errno.ESTALE:
                raise
    return {}
