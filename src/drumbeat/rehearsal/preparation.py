"""Turns a job file and the options of a rehearsal into its order. Invalid input is refused here."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drumbeat.client.discovery import ServerLocation, find
from drumbeat.model.errors import Problem, RefusedError, SpecError
from drumbeat.rehearsal.faults import ALWAYS, FaultKind, parse_faults
from drumbeat.rehearsal.rehearsal import RehearsalOrder
from drumbeat.rehearsal.script_files import read_script
from drumbeat.rehearsal.script_hints import Hint, read_hints

if TYPE_CHECKING:
    from drumbeat.client import Client


RETRIES = 3
"""The number of allowed restarts if the job file allows none."""


@dataclass(frozen=True)
class RehearsalOptions:
    """The options of `drumbeat rehearse`."""

    faults: str = ""
    """Comma-separated faults, "" = all that the compute allows."""
    runs: int = 5
    nodes: int | None = None
    procs: int | None = None
    seed: int = 1
    lasts_s: float = 10.0

    def sets(self) -> tuple[str, ...]:
        """Returns the settings that make the job small."""
        numbers = {
            "resources.instance_count": self.nodes,
            "distribution.process_count_per_instance": self.procs,
        }
        return tuple(f"{key}={number}" for key, number in numbers.items() if number is not None)


def prepare(
    client: Client, where: ServerLocation, file: Path, sets: tuple[str, ...], options: RehearsalOptions
) -> RehearsalOrder:
    """Returns the order of the rehearsal; starts nothing but the server. Raises SpecError, RefusedError."""
    kinds = parse_faults(options.faults) if options.faults else ()
    check_numbers(options.runs, options.lasts_s)
    sets = (*sets, *options.sets())
    document, base = _read(file, sets)
    notes: list[str] = []
    retries = document.get("drumbeat", {}).get("max_retries")
    if not retries:  # A job without the key is not retried before its first checkpoint.
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
    """Returns the job as a document, and the base folder of its paths. Raises SpecError for a sweep."""
    from drumbeat.jobfile.job_file import load_file
    from drumbeat.jobfile.reading.writer import to_dict

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


LOCAL, NETLAB = "local", "netlab"


def require_server_here(where: ServerLocation) -> Path:
    """Returns the home of the server. Raises RefusedError for a server on another machine."""
    here = find(where.home)
    if here is None or (where.url and where.url.rstrip("/") != here.url.rstrip("/")):
        what = f"the server {where.url or where.home} isn't on this machine, and faults hit processes of this machine"
        fix = "Rehearse on your own server: unset DRUMBEAT_SERVER, and use --set compute=local."
        raise RefusedError(what, where="drumbeat rehearse", fix=fix)
    return where.home


def choose_faults(wanted: Sequence[FaultKind], engine: str, compute: str, *, is_root: bool) -> tuple[FaultKind, ...]:
    """Returns the given faults, else all that the compute allows. Raises RefusedError."""
    if engine not in (LOCAL, NETLAB):
        what = f"compute {compute} is of type {engine}, whose nodes aren't processes of this machine"
        fix = "Rehearse on this machine: --set compute=local; or on a netlab, with links that can be cut."
        raise RefusedError(what, where="drumbeat rehearse", fix=fix)
    if not wanted:
        return (*ALWAYS, FaultKind.CUT) if engine == NETLAB else ALWAYS
    if FaultKind.CUT in wanted and engine != NETLAB:
        what = f"nodes of compute {compute} have no separate links that could be cut"
        fix = "As root: `drumbeat compute create` a netlab, and --set compute=NAME; or omit `cut`."
        raise RefusedError(what, where="--faults cut", fix=fix)
    if FaultKind.FILL_DISK in wanted and (engine != LOCAL or not is_root):
        what = "`fill-disk` needs a separate disk for the job, which only root can mount, on the compute `local`"
        fix = "Run as root (`sudo -s`) with --set compute=local, or omit `fill-disk`."
        raise RefusedError(what, where="--faults fill-disk", fix=fix)
    return tuple(wanted)


def check_numbers(runs: int, lasts_s: float) -> None:
    """Raises SpecError for invalid numbers."""
    problems: list[Problem] = []
    if runs < 1:
        problems.append(Problem(f"{runs} runs", "--runs", "Give at least 1."))
    if not 0 < lasts_s <= 3600:
        problems.append(Problem(f"a fault can't last {lasts_s:g} s", "--lasts", "Give more than 0, and at most 3600."))
    if problems:
        raise SpecError("the rehearsal is invalid", fields=tuple(problems))
