"""What takes space, and what was given back, as tables and lines."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from drumbeat.cli.terminal.formatting import count, say_duration, say_moment, say_size
from drumbeat.cli.terminal.screen import fill_table, heading, make_table, pairs
from drumbeat.protocol.api.space import Freed, SpaceItem, Usage

if TYPE_CHECKING:
    from rich.console import RenderableType

DIGEST = 12
"""Characters of a long hexadecimal name."""


def render_usage(usage: Usage, limit: int) -> Iterator[RenderableType]:
    """The biggest things, then the sums."""
    table = make_table(">size", "kind", "name", "used", "about")
    rows = [
        (say_size(one.size), one.kind, _name(one), say_moment(one.used_at) if one.used_at else "", _about(one))
        for one in usage.items[:limit]
    ]
    yield fill_table(table, rows)
    if rest := usage.items[limit:]:
        yield heading(f"and {count(len(rest), 'smaller thing')}: {say_size(sum(one.size for one in rest))}")
    yield heading("totals")
    totals = [(kind, say_size(size)) for kind, size in usage.totals.items()]
    retain = f"{say_duration(timedelta(seconds=usage.retain_s))} after their end" if usage.retain_s else "never"
    free = [("free", say_size(usage.free))] if usage.free else []
    yield pairs([*totals, ("total", say_size(usage.total)), *free, ("jobs are deleted", retain)])


def freed_lines(freed: Freed) -> Iterator[str]:
    """A line for each thing that went or would go, one for each that stays, and the sum."""
    verb = "would delete" if freed.is_dry else "deleted"
    for one in freed.items:
        yield f"{verb} {one.kind} {_name(one)} ({say_size(one.size)}{f', {one.note}' if one.note else ''})"
    for kept in freed.kept:
        yield f"kept {kept.what}: {kept.why}{f'. {kept.fix}' if kept.fix else ''}"
    yield f"{'would free' if freed.is_dry else 'freed'} {say_size(freed.total)}"


def _name(one: SpaceItem) -> str:
    is_digest = one.kind in ("snapshot", "data cache", "environment") and len(one.name) > 2 * DIGEST
    return one.name[:DIGEST] if is_digest and " " not in one.name else one.name


def _about(one: SpaceItem) -> str:
    parts = ", ".join(f"{name} {say_size(size)}" for name, size in one.parts.items() if size)
    return "; ".join(part for part in (one.note, parts) if part)
