"""Every failure as a user reads it, and the exit code that goes with it."""

from __future__ import annotations

import os
import sys
import traceback
from enum import IntEnum

from drumbeat.cli.terminal.styles import Ink, ink_for
from drumbeat.cli.terminal.untrusted_text import make_safe
from drumbeat.model.errors import DrumbeatError, Problem, SpecError, StorageError, UnreachableError


class Exit(IntEnum):
    """Exit codes of the command line itself; `run` and `wait` end with the job's own."""

    FAILED = 1
    BAD_JOB = 2
    TIMEOUT = 3
    UNREACHABLE = 4
    BROKEN_PIPE = 141


def exit_code_for(error: BaseException) -> int:
    """Returns 2 for an invalid job or call, 4 when no server answers, 1 for the rest."""
    if isinstance(error, SpecError):
        return Exit.BAD_JOB
    return Exit.UNREACHABLE if isinstance(error, UnreachableError) else Exit.FAILED


def format_error(error: DrumbeatError, ink: Ink) -> list[str]:
    """Formats `error: what`, where, `→ fix`; every single problem where there are several."""
    problems = error.fields or (Problem(error.what, error.where, error.fix),)
    lines: list[str] = []
    for problem in problems:
        lines += _format_problem(problem, ink)
    if len(error.fields) > 1:
        lines.append(f"{len(error.fields)} problems; nothing has been started.")
    return lines


def _format_problem(problem: Problem, ink: Ink) -> list[str]:
    lines = [f"{ink.paint('error:', 'bad')} {_safe(problem.what)}"]
    if problem.where:
        lines.append(f"  at {_safe(problem.where)}")
    if problem.fix:
        lines.append(f"  → {_safe(problem.fix)}")
    return lines


def _safe(text: str) -> str:
    return "\n    ".join(make_safe(line) for line in text.split("\n"))


def as_drumbeat_error(error: Exception) -> DrumbeatError:
    """Returns drumbeat's errors unchanged, the system's with their own message; all others are internal errors."""
    if isinstance(error, DrumbeatError):
        return error
    if isinstance(error, OSError):
        return StorageError(error.strerror or str(error), where=str(error.filename or ""))
    what = f"internal error in drumbeat: {type(error).__name__}: {error}"
    return DrumbeatError(what, fix="Run it again as `drumbeat --debug …`, and report what that prints.")


def report(error: Exception, *, debug: bool) -> int:
    """Prints an error to standard error; returns the exit code."""
    if isinstance(error, BrokenPipeError):
        _close_quietly()
        return Exit.BROKEN_PIPE
    if debug:
        traceback.print_exception(error)
    problem = as_drumbeat_error(error)
    sys.stdout.flush()
    print(*format_error(problem, ink_for(sys.stderr)), sep="\n", file=sys.stderr)
    return exit_code_for(problem)


def _close_quietly() -> None:
    """Keeps the interpreter's final flush from failing when the reader is gone (docs.python.org, signal)."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
