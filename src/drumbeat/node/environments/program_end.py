"""Runs in a rank's own Python before its script, and leaves a mark on disk when the program has ended cleanly.

The exit code of a process that a signal ends while its interpreter shuts down doesn't show whether its program was
done. The mark does: it is written when the interpreter shuts down after the program has run to its end or called
Python's exit function with 0. It is missing after an error, another code, an immediate exit, `raise SystemExit`, and in
every process but the rank's own.

The node writes this file and `SITE` to the folder at the end of the ranks' PYTHONPATH (`modules_for_ranks.py`). It uses
only the standard library of Python 3.8 or later.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, NoReturn

VARIABLE = "DRUMBEAT_END_MARK"
"""The variable of a rank with the path of its mark. It is removed before the script begins."""
EXITING, EXITED, GROUP = "exiting", "exited", "group"
"""The words of a mark: the program has ended cleanly; its exit handlers have run, too; torch's
process group was open.
"""
SITE = """\
# Part of drumbeat: leaves a mark when a rank's program has ended cleanly (docs/retries.md). Any Python can read this
# file.
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
place = sys.path.index(here) if here in sys.path else -1
# The job's own sitecustomize, if it has one. If not, the ImportError is what `site` expects then.
if place >= 0:
    del sys.path[place]
del sys.modules["sitecustomize"]
try:
    __import__("sitecustomize")
finally:
    if place >= 0:
        sys.path.insert(place, here)
    if "DRUMBEAT_END_MARK" in os.environ and sys.version_info >= (3, 8):
        try:
            import drumbeat_program_end

            drumbeat_program_end.watch()
        except Exception:
            pass  # The rank runs without a mark.
"""
MODULE = "drumbeat_program_end"
_get_frame: Any = getattr(sys, "_getframe")  # noqa: B009 (a private name, and the only way to the caller)
_MAX_EVENTS = 100_000
"""The maximum number of calls before the program's own first one: `python -m` imports modules until then."""


def watch() -> None:
    """Begins to watch the program of this process if it is a rank: the supervisor gives each rank its own session."""
    del sys.modules[__name__]
    path = os.environ.pop(VARIABLE)
    if os.getpid() == os.getsid(0):
        _ProgramEnd(path).begin()


class _ProgramEnd:
    """Watches for the program's end: its first frame, and the last call of Python's exit function.

    The last instruction of a frame shows whether it has returned. The frame is released before Python shuts down,
    because it keeps the program's objects.
    """

    def __init__(self, path: str) -> None:
        self._path, self._pid = path, os.getpid()
        self._frame: FrameType | None = None
        self._exit: tuple[FrameType, int, Any] | None = None
        self._events = 0
        self._sys_exit = sys.exit
        self._words: list[str] = []

    def begin(self) -> None:
        # The handler that is registered first runs last. Those that are registered while threads are joined run first.
        atexit.register(self._on_exited)
        register: Any = getattr(threading, "_register_atexit", None)
        if register is not None:  # Python 3.9 and newer have it.
            register(atexit.register, self._on_exiting)
        sys.exit = self._exit_noted()
        sys.setprofile(self._on_event)

    def _on_event(self, frame: FrameType, event: str, _: Any) -> None:
        """Records the program's first frame, then stops watching."""
        self._events += 1
        name = frame.f_code.co_name
        is_script = name == "<module>" and frame.f_globals.get("__name__") == "__main__"
        if event == "call" and frame.f_back is None and (is_script or name == "_run_module_as_main"):
            self._frame = frame
        if self._frame or self._events > _MAX_EVENTS:
            sys.setprofile(None)

    def _exit_noted(self) -> Any:
        """Returns an exit function that records its code and the line of the program that calls it."""

        def exit(status: Any = None, /) -> NoReturn:  # noqa: A001 (this is its name)
            self._note_exit(_get_frame(1), status)
            self._sys_exit(status)

        exit.__module__, exit.__qualname__, exit.__doc__ = "sys", "exit", self._sys_exit.__doc__
        return exit

    def _note_exit(self, frame: FrameType | None, status: Any) -> None:
        """Records the exit if it comes from the program's own thread."""
        module: FrameType | None = None
        while frame is not None:
            if frame.f_code.co_name == "<module>":
                module = frame
            if frame is self._frame and module is not None:
                self._exit = module, module.f_lineno, status
            frame = frame.f_back

    def _on_exiting(self) -> None:
        self._mark(EXITING)

    def _on_exited(self) -> None:
        self._mark(EXITED)
        self._frame = self._exit = None
        sys.exit = self._sys_exit

    def _mark(self, word: str) -> None:
        if os.getpid() != self._pid or not self._is_well():  # A fork that runs to its end isn't a rank.
            return
        self._words += [word, GROUP] if _has_group() and GROUP not in self._words else [word]
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                os.write(file, " ".join(self._words).encode())
            finally:
                os.close(file)
        except OSError:
            pass

    def _is_well(self) -> bool:
        """Whether the program has returned, or called the exit function with a code that means 0."""
        import opcode

        if self._frame is None:
            return False
        if opcode.opname[self._frame.f_code.co_code[self._frame.f_lasti]].startswith("RETURN_"):
            return True
        if self._exit is None or hasattr(sys, "last_value"):  # Python keeps the error that ended a program.
            return False
        module, line, status = self._exit
        # After a caught exit the program continues on another line.
        return module.f_lineno == line and (status is None or (isinstance(status, int) and status == 0))


def _has_group() -> bool:
    """Whether torch's process group is open."""
    try:
        return bool(sys.modules["torch.distributed"].is_initialized())
    except Exception:  # noqa: BLE001 (torch isn't imported, or the name is something else)
        return False
