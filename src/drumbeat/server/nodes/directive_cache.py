"""Directives, which all nodes of a gang get alike: made once for each change of their job, and written as JSON once."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property

from drumbeat.core.lifecycle.directive import directive
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.agent import Directive
from drumbeat.model.packed_roster import PackedRoster, packed
from drumbeat.model.wire import to_wire

MAX_MADE = 3
"""How many directives of a job are kept. While a gang starts, reports from before the last node was ready are still
answered by the value of the job that they led to, between polls that are answered by the newest one.
"""
MAX_WHOLE_ROSTER = 4
"""Up to so many nodes a directive carries the whole roster: fetching it would take longer, and as many bytes."""


class DirectiveCache:
    """The directives of the jobs that have nodes. Thread-safe."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[MadeDirective, ...]] = {}
        """Those of each job that were made last, the newest first."""

    def directive(self, job: Job, servers: tuple[str, ...]) -> Directive:
        """Returns what the agents of a job should do. servers: where they call from now on."""
        return self.made(job, servers).directive

    def made(self, job: Job, servers: tuple[str, ...]) -> MadeDirective:
        """Returns the same with what is written of it."""
        kept = self._made.get(job.name, ())
        for one in kept:
            if one.job is job and one.directive.servers == servers:
                return one
        fresh = replace(directive(job), servers=servers)
        for one in kept:
            if one.directive == fresh:  # Most changes of a job change nothing for its nodes.
                one.job = job
                return one
        made = MadeDirective(job, fresh)
        if job.is_without_nodes:
            self._made.pop(job.name, None)
        else:
            self._made[job.name] = (made, *kept[: MAX_MADE - 1])
        return made

    def forget(self, name: str) -> None:
        """Drops that of a job that has ended."""
        self._made.pop(name, None)

    def json(self, name: str, given: Directive, *, is_brief: bool = False) -> bytes:
        """Returns the answer to an agent: `{"directive": …}`. is_brief: whether the agent takes a brief roster."""
        for made in self._made.get(name, ()):
            if made.directive is given:
                return made.brief_json if is_brief else made.json
        if not is_brief or given.roster is None:
            return write_directive(given)
        for made in self._made.get(name, ()):
            if made.directive.roster is given.roster:
                return write_directive(replace(given, roster=made.brief.roster))
        return write_directive(given)


@dataclass
class MadeDirective:
    """A directive, and the value of the job that it was last made from."""

    job: Job
    directive: Directive

    @cached_property
    def packed_roster(self) -> PackedRoster | None:
        """The whole roster, where it isn't part of each directive."""
        roster = self.directive.roster
        return packed(roster) if roster is not None and len(roster.members) > MAX_WHOLE_ROSTER else None

    @cached_property
    def brief(self) -> Directive:
        """The directive for agents that fetch the roster if they need it."""
        roster, file = self.directive.roster, self.packed_roster
        return replace(self.directive, roster=roster.brief(file.digest)) if roster and file else self.directive

    @cached_property
    def json(self) -> bytes:
        """The answer that carries it."""
        return write_directive(self.directive)

    @cached_property
    def brief_json(self) -> bytes:
        """The answer that carries the brief one."""
        return write_directive(self.brief)


def write_directive(given: Directive) -> bytes:
    """Returns the answer that carries a directive."""
    return json.dumps({"directive": to_wire(given)}, ensure_ascii=False, separators=(",", ":")).encode()
