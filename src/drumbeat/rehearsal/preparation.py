"""From a job file and the options of a rehearsal to what is rehearsed. What can be refused is refused here."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drumbeat.client.discovery import Where
from drumbeat.protocol.errors import SpecError
from drumbeat.rehearsal.faults import parse_faults
from drumbeat.rehearsal.rehearsal import RehearsalOrder
from drumbeat.rehearsal.requirements import check_numbers, choose_faults, require_server_here
from drumbeat.rehearsal.script_files import read_script
from drumbeat.rehearsal.script_hints import Hint, read_hints

if TYPE_CHECKING:
    from drumbeat.client import Client

RETRIES = 3
"""Restarts that are allowed where the job file allows none."""


@dataclass(frozen=True)
class RehearsalOptions:
    """The options of `drumbeat rehearse`."""

    faults: str = ""
    """Separated by commas, "" = those that the compute allows."""
    runs: int = 5
    nodes: int | None = None
    procs: int | None = None
    seed: int = 1
    lasts_s: float = 10.0

    def sets(self) -> tuple[str, ...]:
        """Returns what makes the job small."""
        numbers = {
            "resources.instance_count": self.nodes,
            "distribution.process_count_per_instance": self.procs,
        }
        return tuple(f"{key}={number}" for key, number in numbers.items() if number is not None)


def prepare(
    client: Client, where: Where, file: Path, sets: tuple[str, ...], options: RehearsalOptions
) -> RehearsalOrder:
    """Returns what is rehearsed; nothing is started but the server. Raises SpecError, RefusedError."""
    kinds = parse_faults(options.faults) if options.faults else ()
    check_numbers(options.runs, options.lasts_s)
    sets = (*sets, *options.sets())
    document, base = _read(file, sets)
    notes: list[str] = []
    retries = document.get("drumbeat", {}).get("max_retries")
    if not retries:  # A job that doesn't set it is not retried before its first checkpoint.
        sets = (*sets, f"drumbeat.max_retries={RETRIES}")
    if retries == 0:
        notes.append(f"the job file has max_retries: 0, so a fault ends the job; it is rehearsed with {RETRIES}")
    preview = client.plan(file, sets=sets)
    home = require_server_here(where)
    compute = client.compute(preview.plan.compute)
    chosen = choose_faults(kinds, compute.engine, compute.name, is_root=os.geteuid() == 0)
    return RehearsalOrder(
        file,
        sets,
        preview,
        home,
        compute.engine,
        tag=f"rehearsal-{secrets.token_hex(3)}",
        faults=chosen,
        runs=options.runs,
        seed=options.seed,
        lasts_s=options.lasts_s,
        hints=_hints(base, document, preview.plan.world_size),
        notes=tuple(notes),
    )


def _read(file: Path, sets: tuple[str, ...]) -> tuple[dict[str, Any], Path]:
    """Returns the job as a document, and the folder from which its paths count. Raises SpecError for a sweep."""
    from drumbeat.dialect.job_file import load_file
    from drumbeat.dialect.reading.writer import to_dict

    loaded = load_file(file, overrides=sets)
    document = to_dict(loaded.job)
    kind = document.get("type", "command")
    if kind != "command":
        fix = "Rehearse a job of type command: one trial of the sweep, or one step of the pipeline."
        raise SpecError(f"a {kind} job can't be rehearsed", where=str(file), fix=fix)
    return document, loaded.base


def _hints(base: Path, document: dict[str, Any], world_size: int) -> tuple[Hint, ...]:
    code = base / str(document.get("code") or "")
    command = str(document.get("command", ""))
    if not document.get("code") or not code.is_dir():
        return ()
    return tuple(read_hints(read_script(code, command), world_size, command))
