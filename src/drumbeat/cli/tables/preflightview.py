"""The pre-flight of a job as a person reads it: a row for each node, and the matrix of its pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from drumbeat.cli.terminal.formatting import say_size
from drumbeat.cli.terminal.screen import cell, fill_table, heading, make_table
from drumbeat.core.diagnosis.preflight import say_rate, say_time

if TYPE_CHECKING:
    from rich.console import RenderableType

    from drumbeat.protocol.api.preflight import LinkView, NodePreflightView, PreflightView

MATRIX_NODES = 12
"""With more nodes than this a matrix is too wide, and the slowest links are listed."""
_LISTED = 20


def render_preflight(result: PreflightView) -> Iterator[RenderableType]:
    """Yields everything that the nodes measured, the verdict first."""
    yield cell(result.sentence)
    yield heading("Nodes")
    titles = (">node", "machine", "host", "interface", ">clock", ">disk free", ">1 MiB written", ">GPUs", "environment")
    yield fill_table(make_table(*titles), map(_node, result.nodes))
    if len(result.nodes) <= MATRIX_NODES:
        yield heading("Bandwidth from the row's node to the column's")
        yield _matrix(result, _rate)
        yield heading("Shortest round trip")
        yield _matrix(result, _trip)
    else:
        yield heading("The slowest links")
        slowest = sorted(result.links, key=lambda one: min(one.out_bits_per_s, one.in_bits_per_s))[:_LISTED]
        table = make_table(">from", ">to", ">there", ">back", ">round trip", "trouble")
        yield fill_table(table, map(_link, slowest))


def _node(one: NodePreflightView) -> tuple[object, ...]:
    return (
        one.node,
        one.machine,
        one.host,
        one.interface,
        f"{one.clock_ms:+} ms",
        say_size(one.free_bytes) if one.free_bytes >= 0 else "",
        f"{one.write_ms} ms" if one.write_ms >= 0 else "",
        one.gpus if one.gpus >= 0 else "",
        one.environment,
    )


def _link(one: LinkView) -> tuple[object, ...]:
    out_rate, in_rate = (say_rate(rate) if rate > 0 else "" for rate in (one.out_bits_per_s, one.in_bits_per_s))
    return (
        one.node,
        one.peer,
        out_rate,
        in_rate,
        say_time(one.round_trip_us) if one.round_trip_us > 0 else "",
        one.error,
    )


def _matrix(result: PreflightView, say: Callable[[LinkView, bool], str]) -> RenderableType:
    """Returns the table of pairs. say: the text of a link, seen from the node that called or from its peer."""
    cells = {(one.node, one.peer): say(one, True) for one in result.links}
    cells |= {(one.peer, one.node): say(one, False) for one in result.links}
    numbers = [one.node for one in result.nodes]
    table = make_table(">node", *(f">{number}" for number in numbers))
    rows = [(row, *("·" if row == column else cells.get((row, column), "") for column in numbers)) for row in numbers]
    return fill_table(table, rows)


def _rate(link: LinkView, is_caller: bool) -> str:
    rate = link.out_bits_per_s if is_caller else link.in_bits_per_s
    return link.error or (say_rate(rate) if rate > 0 else "")


def _trip(link: LinkView, _is_caller: bool) -> str:
    return link.error or (say_time(link.round_trip_us) if link.round_trip_us > 0 else "")
