"""A prediction as a person reads it, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drumbeat.cli.terminal.formatting import say_size
from drumbeat.cli.terminal.screen import cell, fill_table, heading, make_table, pairs
from drumbeat.core.diagnosis.preflight import say_rate, say_time
from drumbeat.core.prediction import NetworkSpeed, Prediction, StepProfile, largest_efficient, say_limit

if TYPE_CHECKING:
    from rich.console import RenderableType

EFFICIENT = 0.8


@dataclass(frozen=True)
class Predicted:
    """Predictions with what they rest on."""

    profile: StepProfile
    network: NetworkSpeed
    predictions: Sequence[Prediction]
    sources: dict[str, str]
    """Where the step, the gradients, the network and the overlap come from, in words."""


def render_prediction(result: Predicted) -> Iterator[RenderableType]:
    """Yields what was put in, and a row for each number of nodes."""
    profile, network = result.profile, result.network
    yield heading("What the prediction rests on")
    given = {
        "step": f"{profile.step_s * 1000:.1f} ms on one node, of which {profile.data_s * 1000:.1f} ms wait for data",
        "gradients": say_size(round(profile.gradient_bytes)),
        "network": f"{say_rate(network.bits_per_s)}, {say_time(network.round_trip_s * 1e6)} for a round trip",
        "overlap": f"{profile.overlap:.0%} of the computation can hide gradients",
    }
    yield pairs([(name, f"{text} ({result.sources[name]})") for name, text in given.items()])
    yield heading("Prediction")
    table = make_table(">nodes", ">ranks", ">step ms", ">sync ms", ">not hidden ms", ">efficiency", "limited by")
    yield fill_table(table, (_row(one, profile) for one in result.predictions))
    best = largest_efficient(result.predictions, EFFICIENT)
    largest = max((one.nodes for one in result.predictions), default=1)
    if best is not None and best.nodes < largest:
        yield cell(f"Up to {best.nodes} of these numbers of nodes, efficiency stays at {EFFICIENT:.0%} or above.")


def _row(one: Prediction, profile: StepProfile) -> tuple[object, ...]:
    times = (f"{seconds * 1000:.1f}" for seconds in (one.step_s, one.sync_s, one.exposed_s))
    return (one.nodes, one.ranks, *times, f"{one.efficiency:.0%}", say_limit(one, profile))
