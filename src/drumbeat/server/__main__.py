"""`python -m drumbeat.server`."""

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


def control_of(home: Path, endpoints: Endpoints) -> Control:
    """The control room of that home, with the adapters it is wired to."""
    # By its name: the wiring stands above every room, and only an entry point reaches up to it.
    return import_module("drumbeat.wiring").make_control(home, endpoints)


def leave(code: int) -> None:
    """Ends the process at once: a thread that is still at an effect isn't waited for; the next start runs it again."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    gc.disable()  # Until the server is ready: hardly anything of what it imports is garbage.
    leave(main(control_of))
