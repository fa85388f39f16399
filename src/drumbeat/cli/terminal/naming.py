"""From what a person typed to a job: its name, the beginning of its name, or `@last`."""

from __future__ import annotations

from difflib import get_close_matches

from drumbeat.cli.terminal.connect import Server
from drumbeat.client.views import JobView
from drumbeat.protocol.errors import NotFoundError

LAST = "@last"
LOOKED_THROUGH = 1000
"""The newest jobs among which the beginning of a name is looked for."""
NAMED = 6


def find_job(server: Server, typed: str) -> JobView:
    """The job. Raises NotFoundError when none or several are meant."""
    if typed == LAST:
        return server.get(_newest(server))
    try:
        return server.get(typed)
    except NotFoundError:
        names = [job.name for job in server.list(archived=True, limit=LOOKED_THROUGH)]
        return server.get(pick(typed, names))


def _newest(server: Server) -> str:
    for job in server.list(archived=True, limit=1):
        return job.name
    raise NotFoundError("there is no job yet", where=LAST, fix="Submit one: drumbeat run job.yml")


def pick(typed: str, names: list[str]) -> str:
    """The one name that begins so."""
    found = [name for name in names if name.startswith(typed)] if typed else []
    if len(found) == 1:
        return found[0]
    if found:
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        raise NotFoundError(
            f"{len(found)} jobs begin with {typed!r}: {', '.join(found[:NAMED])}{more}", fix="Type more of the name."
        )
    close = get_close_matches(typed, names, n=1)
    fix = f"The nearest is {close[0]}." if close else "See them with: drumbeat list --all"
    raise NotFoundError(f"no job is called {typed!r} or begins so", fix=fix)
