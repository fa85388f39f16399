"""System calls that Python doesn't provide."""

from __future__ import annotations

import os


def call(name: str, *arguments: bytes | int | None) -> None:
    """Calls a function of the C library. Raises OSError."""
    import ctypes

    # Of this process's own C library: no library has to be searched, and none is loaded a second time.
    library = ctypes.CDLL(None, use_errno=True)
    values = [ctypes.c_ulong(value) if isinstance(value, int) else value for value in arguments]
    if getattr(library, name)(*values) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
