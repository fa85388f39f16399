"""Named points at which a test may kill the process, to prove that nothing is lost there.

`faultpoint("loop.after_commit")` does nothing unless `DRUMBEAT_FAULT` names it: `loop.after_commit` kills this process
with SIGKILL when it comes by, `loop.after_commit:3` when it comes by for the third time. Points are named
`<who>.<when>`; a test counts them (tests/chaos) and kills at each one. The simulator sets `hook` instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable

VARIABLE = "DRUMBEAT_FAULT"

hook: Callable[[str], None] | None = None
"""Called with the name of each point that is passed; None = only the variable counts."""

_passed = 0


def faultpoint(name: str) -> None:
    """Here a process may die, and everything must still come out right."""
    if hook is not None:
        hook(name)
    wanted = os.environ.get(VARIABLE)
    if wanted:
        _maybe_die(name, wanted)


def _maybe_die(name: str, wanted: str) -> None:
    global _passed  # noqa: PLW0603 (a process dies once)
    point, _, nth = wanted.partition(":")
    if point == name:
        _passed += 1
        if _passed >= int(nth or 1):
            os.kill(os.getpid(), 9)
