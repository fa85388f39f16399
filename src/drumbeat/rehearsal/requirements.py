"""What a rehearsal needs, and refuses in a sentence where it isn't there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drumbeat.client.discovery import Where, find
from drumbeat.protocol.errors import Problem, RefusedError, SpecError
from drumbeat.rehearsal.faults import ALWAYS, FaultKind

LOCAL, NETLAB = "local", "netlab"


def require_server_here(where: Where) -> Path:
    """Returns the home of the server. Raises RefusedError for a server on another machine."""
    here = find(where.home)
    if here is None or (where.url and where.url.rstrip("/") != here.url.rstrip("/")):
        what = f"the server {where.url or where.home} isn't on this machine, and faults hit processes of this machine"
        fix = "Rehearse on a server of your own: unset DRUMBEAT_SERVER, and take --set compute=local."
        raise RefusedError(what, where="drumbeat rehearse", fix=fix)
    return where.home


def choose_faults(wanted: Sequence[FaultKind], engine: str, compute: str, *, is_root: bool) -> tuple[FaultKind, ...]:
    """Returns the faults that were named, else all that the compute allows. Raises RefusedError."""
    if engine not in (LOCAL, NETLAB):
        what = f"compute {compute} is of type {engine}, whose nodes are no processes of this machine"
        fix = "Rehearse on this machine: --set compute=local; or on a netlab, with links that can be cut."
        raise RefusedError(what, where="drumbeat rehearse", fix=fix)
    if not wanted:
        return (*ALWAYS, FaultKind.CUT) if engine == NETLAB else ALWAYS
    if FaultKind.CUT in wanted and engine != NETLAB:
        what = f"nodes of compute {compute} have no links of their own that could be cut"
        fix = "As root: `drumbeat compute create` a netlab, and --set compute=NAME; or leave `cut` out."
        raise RefusedError(what, where="--faults cut", fix=fix)
    if FaultKind.FILL_DISK in wanted and (engine != LOCAL or not is_root):
        what = "a full disk needs a disk of the job's own, which only root can mount, on the compute `local`"
        fix = "Work as root (`sudo -s`) with --set compute=local, or leave `fill-disk` out."
        raise RefusedError(what, where="--faults fill-disk", fix=fix)
    return tuple(wanted)


def check_numbers(runs: int, lasts_s: float) -> None:
    """Raises SpecError."""
    problems: list[Problem] = []
    if runs < 1:
        problems.append(Problem(f"{runs} runs", "--runs", "Take at least 1."))
    if not 0 < lasts_s <= 3600:
        problems.append(Problem(f"a fault can't last {lasts_s:g} s", "--lasts", "Take more than 0, and at most 3600."))
    if problems:
        raise SpecError("the rehearsal is invalid", fields=tuple(problems))
