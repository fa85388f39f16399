"""Predictions of `drumbeat plan --predict` beside runs: the efficiency of two nodes at several bandwidths.

    python -m bench.predict --write docs/bench/predict.md

At each bandwidth, a netlab of two nodes trains on one node and on two. The prediction knows the step of one node, the
pre-flight's network, and the gradients as one run has sent them; once without and once with the overlap that the
two nodes show at the middle bandwidth. Needs root, for the netlab.
"""

import argparse
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.serving import serving
from bench.start import describe_machine
from bench.start_report import publish
from drumbeat.bench.machine_load import busy_share
from drumbeat.cli.commands.predict import gradient_bytes, measured_network, run_measured, step_seconds
from drumbeat.cli.job_options.file_or_command import RequestedJob
from drumbeat.client import Client
from drumbeat.core.diagnosis.preflight import format_rate, format_time
from drumbeat.core.prediction import NetworkSpeed, StepProfile, calibrated, predict
from tools.matrix.place import delete_compute

SCRIPT = Path(__file__).with_name("predict_rank.py")
GOAL = 0.05
MAX_BUSY = 0.1
HEAD = """\
# Predictions beside runs

<!-- Written by `python -m bench.predict`. -->

The efficiency of two nodes against one, as `drumbeat plan --predict` computes it
([pre-flight](../preflight.md#prediction)) and as a run has it. {layers} layers of {width} × {width} ({size:.1f} MB of
gradients), {rows} rows, one rank a node, one thread; nodes in network namespaces of one machine, with links of these
bandwidths. The gradients that a node was seen to send in a step: {sent:.1f} MB.

Machine: {machine}. Other programs used {busy:.0%} of its processors before the runs.
"""
NOISY = """\
> **Warning:** the machine was busy, so that steps of one node and of two were measured under different conditions.
"""
ENDING = """\
*Assumed* takes half of the computation as time to hide gradients in; *calibrated* knows the step of two nodes at
{middle}. The goal is an error of at most {goal:.0f} points at the other bandwidths: {verdict}.
"""


@dataclass(frozen=True)
class Model:
    """What is trained."""

    layers: int = 4
    width: int = 768
    rows: int = 512
    seconds: int = 25

    @property
    def gradient_bytes(self) -> int:
        """Of all layers, in float32."""
        return 4 * self.layers * self.width**2


@dataclass(frozen=True)
class Measurement:
    """What runs at one bandwidth have shown."""

    bandwidth: str
    alone_s: float
    two_s: float
    network: NetworkSpeed
    sent_bytes: float

    @property
    def efficiency(self) -> float:
        """Of two nodes."""
        return self.alone_s / self.two_s


def measure(model: Model, bandwidths: list[str]) -> list[Measurement]:
    """Runs each bandwidth in turn."""
    with serving() as home:
        client = Client(home=home)
        try:
            return [_measure(client, model, bandwidth) for bandwidth in bandwidths]
        finally:
            client.close()


def _measure(client: Client, model: Model, bandwidth: str) -> Measurement:
    client.create_compute({"name": "lab", "type": "netlab", "nodes": 2, "cpus": 1, "bandwidth": bandwidth})
    words = f"{model.layers} {model.width} {model.rows} {model.seconds}"
    job = {
        "command": f"{sys.executable} {SCRIPT} {words}",
        "compute": "lab",
        "distribution": {"type": "pytorch"},
        "environment_variables": {"OMP_NUM_THREADS": "1"},
    }
    try:
        alone, two = (run_measured(client, RequestedJob(job), nodes) for nodes in (1, 2))
    finally:
        delete_compute(client, "lab")
    network = measured_network(two.job)
    found = Measurement(bandwidth, step_seconds(alone), step_seconds(two), network, gradient_bytes(two, 1))
    print(found, file=sys.stderr, flush=True)
    return found


def render(model: Model, found: list[Measurement], machine: str, busy: float) -> str:
    """Returns the page."""
    middle = found[len(found) // 2]
    sent = statistics.median(one.sent_bytes for one in found)
    fit = calibrated(StepProfile(middle.alone_s, sent), middle.network, middle.two_s)
    rows, errors = [], []
    for one in found:
        assumed = predict(StepProfile(one.alone_s, sent), one.network, 2).efficiency
        profile = StepProfile(one.alone_s, sent, 0.0, fit.overlap, fit.last_bytes, fit.extra_s)
        fitted = predict(profile, one.network, 2).efficiency
        if one is not middle:
            errors.append(abs(fitted - one.efficiency))
        network = f"{format_rate(one.network.bits_per_s)}, {format_time(one.network.round_trip_s * 1e6)}"
        steps = f"{one.alone_s * 1000:.0f} | {one.two_s * 1000:.0f}"
        cells = " | ".join(f"{share:.0%} ({(share - one.efficiency) * 100:+.0f})" for share in (assumed, fitted))
        rows.append(f"| {one.bandwidth} | {network} | {steps} | {one.efficiency:.0%} | {cells} |")
    title = "| link | pre-flight | step of one, ms | of two, ms | efficiency, run | assumed | calibrated |"
    is_met = max(errors) <= GOAL
    verdict = "met" if is_met else f"missed, by an error of {max(errors) * 100:.0f} points"
    head = HEAD.format(
        layers=model.layers, width=model.width, rows=model.rows, size=model.gradient_bytes / 1e6, sent=sent / 1e6,
        machine=machine, busy=busy,
    )  # fmt: skip
    table = "\n".join([title, "|---" * 7 + "|", *rows]) + "\n"
    ending = ENDING.format(middle=middle.bandwidth, goal=GOAL * 100, verdict=verdict)
    return "\n".join(part for part in (head, NOISY if busy > MAX_BUSY else "", table, ending) if part)


def main() -> None:
    """Reads the options, measures, writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bandwidths", nargs="+", default=["100mbit", "200mbit", "500mbit"])
    parser.add_argument("--seconds", type=int, default=Model.seconds, help="of each run")
    parser.add_argument("--rows", type=int, default=Model.rows)
    parser.add_argument("--write", type=Path, help="where the report goes")
    options = parser.parse_args()
    model = Model(rows=options.rows, seconds=options.seconds)
    busy, machine = busy_share(2.0), describe_machine()
    publish(render(model, measure(model, options.bandwidths), machine, busy), options.write)


if __name__ == "__main__":
    main()
