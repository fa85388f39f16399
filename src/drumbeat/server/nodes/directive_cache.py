"""Directives, which all nodes of a gang get alike: made once for each value of their job, and written as JSON once."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property

from drumbeat.core.lifecycle.directive import directive
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.agent import Directive
from drumbeat.model.wire import to_wire

MAX_JOBS = 1000
"""Jobs whose directives are kept. All are dropped at once: they are made again as they are asked for."""


class DirectiveCache:
    """The directives of the jobs that were asked for last. Thread-safe."""

    def __init__(self) -> None:
        self._made: dict[str, MadeDirective] = {}

    def directive(self, job: Job, servers: tuple[str, ...]) -> Directive:
        """Returns what the agents of a job should do. servers: where they call from now on."""
        made = self._made.get(job.name)
        if made is None or made.job is not job or made.directive.servers != servers:
            if len(self._made) >= MAX_JOBS:
                self._made.clear()
            made = self._made[job.name] = MadeDirective(job, replace(directive(job), servers=servers))
        return made.directive

    def json(self, name: str, given: Directive) -> bytes:
        """Returns the answer to an agent: `{"directive": …}`."""
        made = self._made.get(name)
        return made.json if made is not None and made.directive is given else write_directive(given)


@dataclass(frozen=True)
class MadeDirective:
    """A directive, and the value of the job that it was made from."""

    job: Job
    directive: Directive

    @cached_property
    def json(self) -> bytes:
        """The answer that carries it."""
        return write_directive(self.directive)


def write_directive(given: Directive) -> bytes:
    """Returns the answer that carries a directive."""
    return json.dumps({"directive": to_wire(given)}, ensure_ascii=False, separators=(",", ":")).encode()
