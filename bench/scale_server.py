"""A real server whose engine has machines on paper: `python -m bench.scale_server --home HOME …`, as `drumbeat.server`.

It starts no agents. What a node's agent would find in its enrolment goes to `HOME/gangs/JOB.json`, for a program that
plays the agents.
"""

import gc
import json
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import drumbeat.wiring
from drumbeat.model.api.computes import Machine
from drumbeat.ports.engines import Gang, GangStatus
from drumbeat.server.process.serve import main

MACHINES = int(os.environ.get("BENCH_MACHINES", "4096"))
GPUS = tuple(str(gpu) for gpu in range(8))


class PaperEngine:
    """Passes as `ports.Engine`; nothing of a gang is anywhere but in the player."""

    name = "local"
    has_queue = False

    def __init__(self, folder: Path, *_: Any, **__: Any) -> None:
        self.folder = folder.parent / "gangs"
        self.folder.mkdir(exist_ok=True)
        self._machines = [Machine(f"m{number}", 96, GPUS) for number in range(MACHINES)]

    def machines(self) -> list[Machine]:
        """As many as the benchmark wants."""
        return self._machines

    def server_addresses(self) -> list[str]:
        """The player is on this machine."""
        return []

    def start(self, gang: Gang) -> str:
        """Writes each node's secret, all in one file."""
        secrets = [gang.node_secret(node) for node in range(gang.plan.nodes)]
        found = {"job": gang.job, "attempt": gang.attempt, "secrets": secrets}
        written = self.folder / f"{gang.job}.tmp"
        written.write_text(json.dumps(found), encoding="utf-8")
        written.rename(self.folder / f"{gang.job}.json")
        return "started"

    def rendered(self, gang: Gang) -> str:
        """Nothing is handed over."""
        del gang
        return ""

    def observe(self, gang: Gang) -> GangStatus:
        """All are there."""
        del gang
        return GangStatus("running")

    def stop(self, name: str) -> None:
        """Nothing runs."""

    def sweep(self, wanted: Callable[[], set[str]]) -> list[str]:
        """Nothing is left."""
        del wanted
        return []

    def close(self) -> None:
        """Nothing was made."""


if __name__ == "__main__":
    gc.disable()  # As `drumbeat.server` does.
    drumbeat.wiring.LocalEngine = PaperEngine  # type: ignore[assignment,misc]
    code = main(drumbeat.wiring.make_control)
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)
