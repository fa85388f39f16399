"""Who uses what this node keeps: a file for each attempt, which names its folder and counts while that is there.

Nodes may share what they keep, and can't see each other's folders: a pin of another machine is believed for a while.
A pin of this machine from before its last start is not.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drumbeat.host.machine import boot


@dataclass(frozen=True)
class Pins:
    """Those in `folder`. elsewhere_s: how long one of another machine counts."""

    folder: str
    elsewhere_s: float

    def put(self, root: str, content: Mapping[str, Any]) -> None:
        """Writes the pin of the attempt in `root`, and replaces the one before. Raises OSError."""
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        name = hashlib.sha256(root.encode(errors="surrogateescape")).hexdigest()[:32]
        path = os.path.join(self.folder, name)
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            json.dump({**content, "root": root, "host": socket.gethostname(), "boot": boot()}, file)
        os.replace(f"{path}.new", path)  # It needn't outlive this start of the machine: who uses it doesn't.

    def read(self, now: float) -> list[dict[str, Any]]:
        """The valid pins, each with its `root`; the others are removed."""
        pins: list[dict[str, Any]] = []
        with contextlib.suppress(FileNotFoundError):
            for entry in list(os.scandir(self.folder)):
                with contextlib.suppress(FileNotFoundError):
                    pin = _read(entry.path)
                    if pin and self._counts(pin, now - entry.stat().st_mtime):
                        pins.append(pin)
                    else:
                        os.unlink(entry.path)
        return pins

    def _counts(self, pin: dict[str, Any], age_s: float) -> bool:
        if os.path.isdir(str(pin.get("root", ""))):
            return True
        is_here = pin.get("host") == socket.gethostname() or pin.get("boot") == boot()
        return not is_here and age_s < self.elsewhere_s


def _read(path: str) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
        content: dict[str, Any] = json.load(file)
        return content
    return {}
