"""Holds the mount of one input until SIGINT: `python -I -m drumbeat.node.inputs.mounting.mount_holder FOLDER`.

FOLDER has `wanted.json` (name, file, place, rclone's path), `listing.json` and `enrolment.json`, which a new agent
replaces; the holder writes `state.json` there, and to `holder.log` what can't be read. It ends when rclone does.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, NoReturn

from drumbeat.model import wire
from drumbeat.model.agent import Enrolment
from drumbeat.model.input_listing import ListedFile, Listing
from drumbeat.node.host import processes
from drumbeat.node.inputs.fetching.http_client import FetchTimeouts
from drumbeat.node.inputs.mounting.input_reader import RangeReader
from drumbeat.node.inputs.mounting.unmounting import unmount
from drumbeat.node.inputs.mounting.webdav_server import Dav
from drumbeat.node.inputs.mounting.webdav_tree import Tree
from drumbeat.node.platform import locks
from drumbeat.node.platform.server_link import ServerLink

MOUNT_S = 60.0
"""How long rclone may take to mount."""
_LOOK_S = 0.02
_END_S = 3.0
_OPTIONS = (
    "--config", "/dev/null", "--read-only", "--vfs-cache-mode", "off", "--no-modtime", "--poll-interval", "0",
    "--dir-cache-time", "9999h", "--attr-timeout", "1h", "--file-perms", "0444", "--dir-perms", "0555",
    "--timeout", "0", "--stats", "0", "--log-level", "ERROR", "--use-cookies=false",
)  # fmt: skip
"""Nothing is remembered on the disk, and nothing changes: the listing is the job's for ever. Who waits is the store's
reader, not rclone."""


class MountHolder:
    """Holds one mount."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        with open(f"{folder}/wanted.json", encoding="utf-8") as file:
            self._wanted: Mapping[str, Any] = json.load(file)
        enrolment = self._enrolment()
        with open(f"{folder}/listing.json", encoding="utf-8") as file:
            files = _shown(wire.loads(Listing, file.read()), self._wanted["file"])
        give_up_s = max(60.0, enrolment.plan.lost_after_s)
        timeouts = FetchTimeouts(give_up_s=give_up_s, no_connection_s=give_up_s)  # Ranks that read it would lose work.
        reading = RangeReader(
            self._wanted["name"],
            list(files.values()),
            lambda: ServerLink(self._enrolment(), timeouts.timeout_s),
            timeouts,
        )
        self._secret, self._telling = secrets.token_urlsafe(24), threading.RLock()
        self._dav = Dav(Tree(files), reading, self._secret, self._on_unread)
        self._server: subprocess.Popen[bytes] | None = None
        self._state = {"pid": os.getpid(), "born": processes.birth(os.getpid())}

    def run(self) -> int:
        """Mounts, and waits for rclone's end, which is the mount's. 1 = it never came to be."""
        place = self._wanted["place"]
        try:
            unmount(place)  # A killed holder may have left a mount.
            os.makedirs(place, exist_ok=True)
            server = self._start(place)
            if not self._is_up(server, place):
                self._tell(trouble=self._last_words() or "rclone doesn't mount")
                return 1
            self._tell(is_mounted=True)
            server.wait()
            self._say(f"rclone ended with {server.returncode}")
            return 0
        finally:
            self._end(place)

    def _start(self, place: str) -> subprocess.Popen[bytes]:
        """Passes address and secret in the environment, which other users can't read."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("RCLONE_")}
        options = {"URL": self._dav.url, "BEARER_TOKEN": self._secret, "ENCODING": "None", "VENDOR": "other"}
        environment = {**clean, **{f"RCLONE_WEBDAV_{name}": value for name, value in options.items()}}
        shared = ["--allow-other"] if os.geteuid() == 0 else []
        command = [self._wanted["rclone"], "mount", ":webdav:", place, *_OPTIONS, *shared]
        parent = os.getpid()
        with open(f"{self._folder}/holder.log", "ab") as log:
            self._server = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", env=environment,
                preexec_fn=lambda: processes.die_with_parent(parent),  # noqa: PLW1509 (no thread holds a lock it needs)
            )  # fmt: skip
        self._tell(server=self._server.pid, server_born=processes.birth(self._server.pid))
        return self._server

    def _is_up(self, server: subprocess.Popen[bytes], place: str) -> bool:
        deadline = time.monotonic() + MOUNT_S
        while server.poll() is None and time.monotonic() < deadline:
            if os.path.ismount(place):
                return True
            time.sleep(_LOOK_S)
        return False

    def _end(self, place: str) -> None:
        unmount(place)
        if self._server is not None and self._server.poll() is None:
            self._server.terminate()
            try:
                self._server.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
        with contextlib.suppress(OSError):
            os.rmdir(place)

    # --- what it reads and writes -------------------------------------------------------------------------------
    def _enrolment(self) -> Enrolment:
        with open(f"{self._folder}/enrolment.json", encoding="utf-8") as file:
            return wire.loads(Enrolment, file.read())

    def _tell(self, **more: object) -> None:
        part = f"{self._folder}/state.json.part"
        with self._telling:
            self._state |= more
            with open(part, "w", encoding="utf-8") as file:
                json.dump(self._state, file)
            os.rename(part, f"{self._folder}/state.json")

    def _on_unread(self, sentence: str) -> None:
        """Records the first file that couldn't be read for the agent: the rank only gets "Input/output error"."""
        self._say(sentence)
        with self._telling, contextlib.suppress(OSError):
            if "unread" not in self._state:
                self._tell(unread=sentence)

    def _say(self, sentence: str) -> None:
        with contextlib.suppress(OSError), open(f"{self._folder}/holder.log", "a", encoding="utf-8") as file:
            file.write(f"{sentence}\n")

    def _last_words(self) -> str:
        with (
            contextlib.suppress(OSError),
            open(f"{self._folder}/holder.log", encoding="utf-8", errors="replace") as log,
        ):
            lines = [line.strip() for line in log.read()[-4096:].splitlines() if line.strip()]
            return lines[-1][:300] if lines else ""
        return ""


def _shown(listing: Listing, name: str) -> dict[str, ListedFile]:
    """Returns the files by their paths; an input that is a single file by the name that the ranks use."""
    if listing.is_file:
        return {name: listing.files[0]}
    return {file.path: file for file in listing.files}


def _leave(*_: object) -> NoReturn:
    raise SystemExit(0)


def main() -> int:
    """Runs the holder; returns 1 if the input could not be mounted."""
    folder = sys.argv[1]
    lock = locks.take(f"{folder}/holder.lock")
    if lock is None:
        return 0
    # A scheduler signals every process of the node, and the ranks keep reading for their grace time.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, _leave)
    return MountHolder(folder).run()


if __name__ == "__main__":
    sys.exit(main())
