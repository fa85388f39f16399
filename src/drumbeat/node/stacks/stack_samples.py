"""Samples of the stack of a process's main thread over a short time, by one call of py-spy.

The process keeps running. A sample costs a small fraction of a single dump, most of which is the start of py-spy.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from typing import Any

from drumbeat.model.stacks import StackFrame, StackSample
from drumbeat.node.platform import child_processes

RATE_HZ = 20
START_TIMEOUT_S = 8.0
"""The extra time for the start of py-spy on a busy machine."""
_INSTALLED = re.compile(r"/(?:site|dist)-packages/|/lib(?:64)?/python\d|^<frozen")
_MAX_FRAMES = 100
_MAX_NAME = 200


def sample(program: str, pid: int, seconds: float) -> tuple[StackSample, ...]:
    """Returns the stacks of the main thread, the most frequent first; () = none."""
    import subprocess

    descriptor, path = tempfile.mkstemp(prefix="drumbeat-stacks-")
    os.close(descriptor)
    words = [
        program, "record", "--pid", str(pid), "--duration", f"{max(1, round(seconds))}", "--rate", str(RATE_HZ),
        "--nonblocking", "--idle", "--threads", "--full-filenames", "--format", "speedscope", "--output", path,
    ]  # fmt: skip
    try:
        done = child_processes.run(words, seconds + START_TIMEOUT_S)
        return () if done.returncode else parse(_read(path))
    except (OSError, subprocess.TimeoutExpired):
        return ()
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def parse(text: str) -> tuple[StackSample, ...]:
    """Returns the samples of the main thread in a file of py-spy (speedscope format)."""
    try:
        read: dict[str, Any] = json.loads(text)
        profiles: list[dict[str, Any]] = read["profiles"]
        named: list[dict[str, Any]] = read["shared"]["frames"]
    except (ValueError, KeyError, TypeError):
        return ()
    main = next((one for one in profiles if '"MainThread"' in one["name"]), profiles[0] if profiles else None)
    if main is None:
        return ()
    frames = [_frame(one) for one in named]
    seen: list[list[int]] = main["samples"]
    stacks = Counter(_stack([frames[number] for number in reversed(one)]) for one in seen)
    return tuple(StackSample(frames, count) for frames, count in stacks.most_common() if frames)


def _frame(read: dict[str, Any]) -> StackFrame:
    return StackFrame(str(read["name"])[:_MAX_NAME], str(read.get("file") or "")[:_MAX_NAME], int(read["line"] or 0))


def _stack(frames: Sequence[StackFrame]) -> tuple[StackFrame, ...]:
    """Returns the frames, innermost first, without the one that names the thread.

    Line numbers of installed modules are dropped, so that stacks that differ only in them are equal: a rank in torch's
    forward pass would otherwise have as many stacks as samples. 1 means any line, as 0 means compiled code.
    """
    return tuple(
        StackFrame(one.function, one.file, 1) if _INSTALLED.search(one.file) else one
        for one in frames[:_MAX_FRAMES]
        if one.line
    )
