"""How a program of ours is started: from where this one was, be it an installed package or the zip application."""

from __future__ import annotations

import os
import sys

import drumbeat


def program(module: str) -> list[str]:
    """The command line that runs a module of drumbeat, isolated from whatever Python environment it is called in."""
    place = os.path.dirname(os.path.dirname(os.path.abspath(drumbeat.__file__)))
    if os.path.isfile(place):
        return [sys.executable, "-I", place, module]
    return [sys.executable, "-I", "-m", module]
