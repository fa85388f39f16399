"""Starts programs: drumbeat's own from the place of this one, an installed package or the zip application."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from typing import NoReturn

import drumbeat


def program(module: str) -> list[str]:
    """The command line that runs a module of drumbeat, isolated from the surrounding Python environment."""
    place = os.path.dirname(os.path.dirname(os.path.abspath(drumbeat.__file__)))
    if os.path.isfile(place):
        return [sys.executable, "-I", place, module]
    return [sys.executable, "-I", "-m", module]


def become(command: list[str], environment: Mapping[str, str]) -> NoReturn:
    """Replaces this program with the command. Raises OSError."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these signals, and a command would inherit that.
        signal.signal(number, signal.SIG_DFL)
    os.execvpe(command[0], command, environment)
