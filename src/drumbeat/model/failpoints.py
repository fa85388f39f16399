"""Named points at which a test may kill the process, to prove that nothing is lost there.

`failpoint("loop.after_commit")` does nothing unless `DRUMBEAT_FAULT` names it: `loop.after_commit` kills this process
with SIGKILL when it comes by, `loop.after_commit:3` when it comes by for the third time. `@FILE` has the name in a file
that may be there or not: the one process that dies of it takes it away, so that the next process lives (and
`loop.after_commit:3:anything` restarts the count). Points are named `<who>.<when>`; a test kills at each of them
(tests/chaos). The simulator sets `hook` instead.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable

VARIABLE = "DRUMBEAT_FAULT"

POINTS = (
    "submit.before_commit", "submit.after_commit", "loop.before_commit", "loop.after_commit",
    "effect.before", "effect.looked", "effect.started", "effect.stopped", "effect.keeping_story", "effect.story_kept",
    "store.snapshot_kept", "store.log_grown", "store.log_recorded", "store.outputs_shown", "store.outputs_moved",
    "engine.folder_made", "engine.agent_started", "engine.agents_gone",
    "agent.enrolled", "agent.unpacked", "agent.renamed", "agent.staged", "agent.ready",
    "agent.before_start", "agent.after_start", "agent.log_sent", "agent.exit_told", "agent.output_sent",
    "agent.before_commit", "agent.after_commit", "agent.leaving", "agent.left",
    "supervisor.round_written", "supervisor.rank_forked", "supervisor.exit_written", "supervisor.over_written",
    "supervisor.leaving",
)  # fmt: skip
"""Every point on the way of a job, in its order."""

ELSEWHERE = (
    "engine.submitted", "engine.cancelled",
    "publish.file", "publish.copied", "publish.registered", "effect.published",
    "environment.begun", "environment.installed", "environment.made", "agent.prepared",
    "environment.described", "environment.offered", "environment.sent_some", "environment.fetched",
    "environment.laid_out",
    "cache.pinned", "cache.evicted", "cache.piece", "cache.checked", "cache.renamed", "cache.fetched", "cache.laid_out",
    "sweep.asked", "children.planned", "children.reused", "children.submitted", "children.canceled",
    "delete.committed", "delete.renamed", "delete.files_removed", "delete.snapshots_removed",
    "mount.asked", "mount.begun", "mount.made", "image.built", "wheel.begun", "wheel.built",
    "metrics.begun", "metrics.spooled", "metrics.condition_met", "metrics.forwarded", "metrics.files_taken",
    "checkpoint.copied", "checkpoint.put_back", "schedule.decided", "schedule.submitted", "schedule.noted",
    "effect.claimed", "agent.handed_over",
    "agent.spare_found", "agent.spare_taken", "agent.spare_dead", "supervisor.retiring", "supervisor.retired",
)  # fmt: skip
"""Points that only an engine with a queue comes by; that only a job
with an environment to be made or a preparation of its own does; that only one with inputs in stores does; that only
one with outputs to be put somewhere or to be named does; that only one whose ranks write metrics does; that only one
whose ranks save checkpoints does; that only one by a schedule does; that only nodes between two jobs come by; that
only one with warm workers does, at its end or before its start."""

hook: Callable[[str], None] | None = None
"""Called with the name of each point that is passed; None = only the variable counts."""

_passed: dict[str, itertools.count[int]] = {}
"""How often each was passed; the counters are thread-safe."""


def failpoint(name: str) -> None:
    """Kills the process here if a test asks for it; the results must be the same."""
    if hook is not None:
        hook(name)
    wanted = os.environ.get(VARIABLE)
    if wanted:
        _maybe_die(name, wanted)


def _maybe_die(name: str, setting: str) -> None:
    file = setting[1:] if setting.startswith("@") else ""
    wanted = _read(file) if file else setting
    point, nth, *_ = (*wanted.split(":"), "1")
    if point != name:
        return
    passes = next(_passed.setdefault(wanted, itertools.count(1)))
    if passes >= int(nth) and (not file or _take(file)):
        os.kill(os.getpid(), 9)


def _read(file: str) -> str:
    try:
        with open(file, encoding="utf-8") as opened:  # noqa: PTH123 (the supervisor does without pathlib)
            return opened.read()
    except FileNotFoundError:
        return ""


def _take(file: str) -> bool:
    """Returns whether this process took the file: only one can."""
    try:
        os.rename(file, f"{file}.burnt")  # noqa: PTH104 (as above)
    except FileNotFoundError:
        return False
    return True
