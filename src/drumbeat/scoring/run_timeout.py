"""The time limit of a call of `run`: an exception that is raised in the thread that runs it."""

from __future__ import annotations

import ctypes


class RunTimeoutError(TimeoutError):
    """Raised within `run` when its time is over."""


def interrupt(thread: int) -> None:
    """Raises RunTimeoutError in a thread, as soon as it runs Python code again. thread: its `ident`."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(RunTimeoutError))
