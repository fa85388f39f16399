"""Unmounts all that is mounted below an attempt's folder, and ends the holders, whichever process was killed before."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from typing import Any

from drumbeat.node.host import processes
from drumbeat.node.host.syscalls import call
from drumbeat.node.platform import child_processes

_DETACH = 2
_ASK_S = 10.0


def folder_of(root: str) -> str:
    """Returns the folder with the state of the holders of an attempt's mounts."""
    return f"{root}/mounts"


def clear(root: str, leave_s: float = 0.0) -> list[str]:
    """Ends the holders, by SIGKILL what doesn't go within `leave_s`, and unmounts; gives what can't be unmounted."""
    folder = folder_of(root)
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        end_holder(f"{folder}/{name}", leave_s)
    left = unmount_all(root)
    if not left:
        shutil.rmtree(folder, ignore_errors=True)
    return left


def end_holder(folder: str, leave_s: float = 0.0) -> None:
    """Ends a holder and its rclone."""
    holder = state(folder)
    if not holder:
        return
    if leave_s and processes.is_still(holder["pid"], holder["born"]):
        processes.signal_all([holder["pid"]], signal.SIGINT)
        deadline = time.monotonic() + leave_s
        while processes.is_still(holder["pid"], holder["born"]) and time.monotonic() < deadline:
            time.sleep(0.01)
    for pid, born in ((holder["pid"], holder["born"]), (holder.get("server", 0), holder.get("server_born", ""))):
        if pid:
            processes.end_one(pid, born, _nothing)


def state(folder: str) -> dict[str, Any]:
    """Returns the state that a holder has written, {} = none yet."""
    with contextlib.suppress(OSError, ValueError), open(f"{folder}/state.json", encoding="utf-8") as file:
        return json.load(file)
    return {}


def mounted(root: str, *, itself: bool = False) -> list[str]:
    """Returns the mount points below a folder, the innermost first. itself: also those on the folder."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        points = [_unescaped(line.split(" ")[4]) for line in file]
    here = os.path.realpath(root)
    below = here.rstrip("/") + "/"
    points_below = {point for point in points if point.startswith(below) or (itself and point == here)}
    return sorted(points_below, key=len, reverse=True)


def unmount_all(root: str, *, itself: bool = False) -> list[str]:
    """Unmounts lazily whatever is mounted below a folder; gives what is left. itself: and what is mounted on it."""
    for point in mounted(root, itself=itself):
        unmount(point)
    return mounted(root, itself=itself)


def unmount(point: str) -> None:
    """Unmounts lazily: a process that still reads there gets an error from the kernel."""
    with contextlib.suppress(OSError):
        call("umount2", os.fsencode(point), _DETACH)
        return
    program = shutil.which("fusermount3") or shutil.which("fusermount")
    if program:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            child_processes.run([program, "-uz", point], _ASK_S)


def _unescaped(text: str) -> str:
    r"""As proc(5) writes them: `\040` for a space."""
    for escaped, plain in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(escaped, plain)
    return text


def _nothing() -> None:
    """Does nothing."""
