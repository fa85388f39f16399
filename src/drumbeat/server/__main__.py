"""Runs a server: `python -m drumbeat.server`."""

from __future__ import annotations

import gc
import logging
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from drumbeat.server.process.serve import main

if TYPE_CHECKING:
    from drumbeat.server.computes.agent_addresses import Endpoints
    from drumbeat.server.control import Control


def make_control(home: Path, endpoints: Endpoints) -> Control:
    """Returns the `Control` of a home with its engines and adapters."""
    # Imported by name, because `wiring` is above all packages, and only entry points may use it.
    return import_module("drumbeat.wiring").make_control(home, endpoints)


def leave(code: int) -> None:
    """Ends the process without waiting for threads with effects, which the next start repeats."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    gc.disable()  # Until the server is ready, because imports create hardly any garbage.
    leave(main(make_control))
