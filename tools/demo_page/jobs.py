"""The jobs of the demo: what they are, in the order of their submission."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tools.demo_page import scripts

RANKS = "distribution: {type: pytorch, process_count_per_instance: 2}\nresources: {instance_count: 2}\n"
RATES = (0.001, 0.002, 0.004, 0.006, 0.01, 0.014, 0.02, 0.028, 0.04, 0.06, 0.1, 0.2)
SPACE = "{lr: {type: loguniform, min_value: -7, max_value: -2}, width: {type: choice, values: [32, 64]}}"
KINDS = {5: "nan", 7: "spike"}
"""What is odd in the runs of these numbers."""


@dataclass(frozen=True)
class DemoJob:
    """A job with its script. text: the rest of its job file.

    until: its state when the next one may be submitted; `measured`, and it is canceled then: the next one takes its
    slots, as many as a small machine has.
    """

    name: str
    script: str
    text: str
    experiment: str
    until: str = "ended"


def _run(number: int, rate: float, width: int) -> DemoJob:
    text = (
        f"command: python train.py ${{{{inputs.lr}}}} ${{{{inputs.width}}}} {KINDS.get(number, 'plain')}\n"
        f"inputs: {{lr: {rate}, width: {width}}}\n"
    )
    return DemoJob(f"cifar-lr{number}", scripts.RUN, text, "cifar")


def _sweep(name: str, space: str) -> DemoJob:
    return DemoJob(
        name, scripts.SEARCHED,
        "type: sweep\ntrial: {command: 'python train.py ${{search_space.lr}} ${{search_space.width}}', code: .}\n"
        "sampling_algorithm: random\nobjective: {goal: minimize, primary_metric: loss}\n"
        f"search_space: {space}\nlimits: {{max_total_trials: 12, max_concurrent_trials: 2}}\n",
        "search",
    )  # fmt: skip


def _pipeline(name: str, train_s: float) -> DemoJob:
    return DemoJob(
        name, scripts.STEP,
        "type: pipeline\njobs:\n"
        "  prepare: {type: command, code: ., command: 'python train.py 0.3 ${{outputs.data}}', outputs: {data: {}}}\n"
        f"  train: {{type: command, code: ., command: 'python train.py {train_s} ${{{{outputs.model}}}}', "
        "inputs: {data: '${{parent.jobs.prepare.outputs.data}}'}, outputs: {model: {}}}\n"
        "  evaluate: {type: command, code: ., command: 'python train.py 0.2', "
        "inputs: {model: '${{parent.jobs.train.outputs.model}}'}}\n",
        "nightly",
    )  # fmt: skip


JOBS: tuple[DemoJob, ...] = (
    *(_run(number, rate, 64) for number, rate in enumerate(RATES, 1)),
    *(_run(number, rate, 256) for number, rate in enumerate(RATES[3:9], len(RATES) + 1)),
    DemoJob("many-metrics", scripts.MANY, "command: python train.py\n", "lm"),
    DemoJob("samples", scripts.MEDIA, "command: python train.py\n", "lm"),
    DemoJob(
        "cifar-model", scripts.MODEL,
        "command: python train.py ${{outputs.model}}\n"
        "outputs: {model: {type: custom_model, name: cifar-resnet}}\n", "models",
    ),
    DemoJob("exc-r2", scripts.FAILS, f"command: python train.py\n{RANKS}drumbeat: {{max_retries: 0}}\n", "lm"),
    DemoJob(
        "retry-ok", scripts.RETRIES, f"command: python train.py\n{RANKS}drumbeat: {{max_retries: 3}}\n", "lm",
    ),
    _sweep("lr-width", SPACE),
    _pipeline("nightly-1", 1.5),
    _pipeline("nightly-2", 2.5),
    DemoJob(
        "drags", scripts.DRAGS, f"command: python train.py\n{RANKS}drumbeat: {{hang_after_s: 600}}\n", "lm", "measured",
    ),
    DemoJob(
        "hang-gloo", scripts.HANGS, f"command: python train.py\n{RANKS}drumbeat: {{hang_after_s: 10}}\n", "lm",
        "hanging",
    ),
    DemoJob(
        "waits", scripts.MODEL,
        f"command: python train.py /tmp\nresources: {{instance_count: {os.cpu_count()}}}\n", "lm", "queued",
    ),
)  # fmt: skip
