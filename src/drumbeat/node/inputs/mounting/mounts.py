"""The agent's side of its mounts: starts their holders, restarts them, and unmounts at the end."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from drumbeat.model import folder_layout, wire
from drumbeat.model.agent import Enrolment, NodeMessage
from drumbeat.model.errors import EngineError, RefusedError
from drumbeat.model.failpoints import failpoint
from drumbeat.model.input_listing import Listing
from drumbeat.model.plan import InputPlan
from drumbeat.model.programs import MOUNT_HOLDER
from drumbeat.node.host import processes
from drumbeat.node.host.own_programs import program
from drumbeat.node.inputs.mounting.mount_holder import MOUNT_S
from drumbeat.node.inputs.mounting.read_rates import Rates, measure
from drumbeat.node.inputs.mounting.unmounting import clear, end_holder, folder_of, state, unmount
from drumbeat.node.platform import child_processes, locks
from drumbeat.node.platform.request_backoff import Backoff

FUSE = "/dev/fuse"
_LOOK_S, _NEWS_S = 0.02, 1.0
_LEAVE_S = 4.0
_MAX_FILES = 1000
"""That are read to measure a mount, the largest first."""


class Mounts:
    """The mounts of one attempt on one node.

    note: takes lines for the agent's journal; remember: takes messages for users.
    """

    def __init__(
        self, enrolment: Enrolment, note: Callable[[str], None], remember: Callable[[NodeMessage], None]
    ) -> None:
        self._enrolment, self._note, self._remember = enrolment, note, remember
        self._folder = folder_of(enrolment.root)
        self._looked_after = set[str]()
        self._is_ending = False

    def adopt(self) -> None:
        """Looks after what an agent before this one had mounted."""
        for folder in self._folders():
            if state(folder).get("is_mounted"):
                with suppress(OSError):  # On a full disk the earlier file stays, which is this attempt's as well.
                    self._put(folder, "enrolment.json", wire.dumps(self._enrolment))
                self._look_after(folder)

    def mount(self, planned: InputPlan, listing: Listing) -> Rates | None:
        """Mounts an input where its ranks look for it, and returns how fast it can be read.

        Raises RefusedError, EngineError with the reason why it can't be mounted here.
        """
        place = folder_layout.input_path(self._enrolment.root, planned)
        file = os.path.basename(place) if planned.type == "uri_file" else ""
        folder = f"{self._folder}/{planned.name}"
        request = {"name": planned.name, "file": file, "place": os.path.dirname(place) if file else place}
        try:
            if not _is_mounted(folder):
                request["rclone"] = self._rclone(planned)
                self._ask(folder, request, listing)
                self._start(folder)
                failpoint("mount.made")
            rates = self._measured(planned, listing, place)
        except (RefusedError, EngineError):
            if os.path.isdir(folder):
                self._drop(folder, request["place"])
            raise
        self._look_after(folder)
        return rates

    def _drop(self, folder: str, place: str) -> None:
        """Removes what could not be mounted or read."""
        self._looked_after.discard(folder)
        end_holder(folder, _LEAVE_S)
        unmount(place)
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            os.rmdir(place)

    def pids(self) -> set[int]:
        """Returns the processes that hold mounts: they outlive supervisors."""
        holders = [state(folder) for folder in self._folders()]
        return {int(one[key]) for one in holders for key in ("pid", "server") if key in one}

    def look(self) -> None:
        """Tells of what can't be read."""
        for folder in self._folders():
            self._tell_of(folder)

    def end(self) -> None:
        """Unmounts all: no rank runs any more."""
        self._is_ending = True
        for point in clear(self._enrolment.root, _LEAVE_S):
            self._note(f"{point} can't be unmounted")

    # --- making one -----------------------------------------------------------------------------------------------
    def _ask(self, folder: str, request: dict[str, str], listing: Listing) -> None:
        """Writes the request that a holder reads."""
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._put(folder, "wanted.json", json.dumps(request))
        self._put(folder, "listing.json", wire.dumps(listing))
        self._put(folder, "enrolment.json", wire.dumps(self._enrolment))
        failpoint("mount.asked")

    def _rclone(self, planned: InputPlan) -> str:
        rclone = shutil.which("rclone")
        if planned.type == "uri_file" and not planned.file:
            raise RefusedError("its address doesn't say what the file is called")
        if rclone is None:
            raise RefusedError("this node has no rclone")
        if not os.path.exists(FUSE):
            raise RefusedError(f"this node has no {FUSE}")
        if not os.access(FUSE, os.R_OK | os.W_OK):
            raise RefusedError(f"user {os.geteuid()} may not use {FUSE} on this node")
        if not (shutil.which("fusermount3") or shutil.which("fusermount")):
            raise RefusedError("this node has no fusermount3 (Debian: apt-get install fuse3)")
        return rclone

    def _start(self, folder: str) -> None:
        """Returns when it is mounted. Raises EngineError with what rclone said."""
        with open(f"{folder}/holder.log", "ab") as log:
            holder = child_processes.start(
                [*program(MOUNT_HOLDER), folder],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True,
            )  # fmt: skip
        try:
            failpoint("mount.begun")
            self._wait_for_mount(folder, holder.pid)
        finally:
            child_processes.leave(holder)  # From now on its `state.json` identifies it.

    def _wait_for_mount(self, folder: str, holder: int) -> None:
        """Waits for the mount, whose holder this agent or an earlier one has started."""
        deadline = time.monotonic() + MOUNT_S + 10.0
        while time.monotonic() < deadline:
            is_over = not processes.is_alive(holder) and not locks.is_held(f"{folder}/holder.lock")
            if _is_mounted(folder):  # Checked after its end: then its output is complete.
                return
            if is_over:
                raise EngineError(f"rclone says: {state(folder).get('trouble') or 'nothing'}")
            time.sleep(_LOOK_S)
        processes.signal_all([holder], 9)
        raise EngineError(f"rclone has not mounted it within {MOUNT_S:.0f} s")

    def _measured(self, planned: InputPlan, listing: Listing, place: str) -> Rates | None:
        files = sorted(listing.files, key=lambda one: -one.size)[:_MAX_FILES]
        paths = [place] if planned.type == "uri_file" else [f"{place}/{one.path}" for one in files]
        try:
            return measure(paths, f"{self._folder}/{planned.name}")
        except OSError as error:
            raise EngineError(f"what is mounted can't be read: {error.strerror or error}") from error

    # --- looking after one ----------------------------------------------------------------------------------------
    def _look_after(self, folder: str) -> None:
        if folder in self._looked_after:
            return
        self._looked_after.add(folder)
        threading.Thread(target=self._hold, args=[folder], name="mount", daemon=True).start()

    def _hold(self, folder: str) -> None:
        """Restarts the holder whenever it ends, as long as the attempt lasts."""
        backoff = Backoff()
        while not self._is_ending:
            self._wait_for_end(folder)
            if self._is_ending or folder not in self._looked_after:
                return
            self._note(f"the mount of {os.path.basename(folder)} is gone; it is made again")
            try:
                self._start(folder)
                backoff.reset()
            except (EngineError, OSError) as error:
                self._note(f"it can't be mounted again: {error}")
                backoff.wait()

    def _wait_for_end(self, folder: str) -> None:
        """Reports meanwhile what can't be read."""
        holder = state(folder)
        if not holder or not processes.is_still(holder["pid"], holder["born"]):
            return
        try:
            handle = os.pidfd_open(holder["pid"])
        except ProcessLookupError:
            return
        try:
            while not select.select([handle], [], [], _NEWS_S)[0]:
                self._tell_of(folder)
        finally:
            os.close(handle)
        self._tell_of(folder)

    def _tell_of(self, folder: str) -> None:
        name, unread = os.path.basename(folder), state(folder).get("unread")
        if unread:
            self._remember(NodeMessage(f"unread of input {name}", f"input {name}: {unread}"))

    def _folders(self) -> list[str]:
        if not os.path.isdir(self._folder):
            return []
        return [f"{self._folder}/{name}" for name in sorted(os.listdir(self._folder))]

    @staticmethod
    def _put(folder: str, name: str, text: str) -> None:
        part = f"{folder}/{name}.part"
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(part, f"{folder}/{name}")


def _is_mounted(folder: str) -> bool:
    holder = state(folder)
    return bool(holder.get("is_mounted")) and processes.is_still(holder["pid"], holder["born"])
