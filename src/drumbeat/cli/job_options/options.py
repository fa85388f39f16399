"""The options that replace a job file, and those of `plan --predict`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import typer

from drumbeat.model.errors import SpecError

Nodes = Annotated[
    int | None, typer.Option("--nodes", metavar="N", help="Without a file: number of nodes; 1 by default.")
]
Procs = Annotated[
    int | None,
    typer.Option(
        "--procs", metavar="P", help="Without a file: PyTorch ranks on each node; a single process by default."
    ),
]
Gpus = Annotated[
    int | None, typer.Option("--gpus", metavar="G", help="Without a file: GPUs on each node, shared by its ranks.")
]
Env = Annotated[
    str | None,
    typer.Option(
        "--env",
        metavar="ENV",
        help="Without a file: the environment: requirements.txt, conda.yml, a folder with a Dockerfile, image:NAME, "
        "or the name of an environment.",
    ),
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="NAME=VALUE",
        help="Without a file: an input: a path like ./data, a URL, azureml:NAME:VERSION, or a literal value. The "
        "command refers to it as '${{inputs.NAME}}'. Repeatable.",
    ),
]
Outputs = Annotated[
    list[str] | None,
    typer.Option(
        "--output",
        metavar="NAME[=PATH]",
        help="Without a file: an output folder. The command refers to it as '${{outputs.NAME}}'. Repeatable.",
    ),
]
Compute = Annotated[
    str | None, typer.Option("--compute", metavar="NAME", help="Without a file: the compute; local by default.")
]
Experiment = Annotated[
    str | None,
    typer.Option("--experiment", metavar="NAME", help="Without a file: the experiment that the job belongs to."),
]
WriteTo = Annotated[
    Path | None,
    typer.Option("--write", metavar="FILE", help="Write the job file for these options instead of running the job."),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the file that --write names.")]


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """The options as they were typed. None, (): not given."""

    nodes: int | None = None
    procs: int | None = None
    gpus: int | None = None
    env: str | None = None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    compute: str | None = None
    experiment: str | None = None

    def given(self) -> list[str]:
        """Names of the options that were typed, with their dashes."""
        return [OPTION_OF[each.name] for each in fields(self) if getattr(self, each.name) not in (None, ())]


OPTION_OF = {
    "nodes": "--nodes",
    "procs": "--procs",
    "gpus": "--gpus",
    "env": "--env",
    "inputs": "--input",
    "outputs": "--output",
    "compute": "--compute",
    "experiment": "--experiment",
}
KEY_OF = {
    "--nodes": "resources.instance_count",
    "--procs": "distribution.process_count_per_instance",
    "--gpus": "resources.instance_type",
    "--env": "environment",
    "--compute": "compute",
    "--experiment": "experiment_name",
}
"""Key of the job file that an option stands for."""


Sizes = Annotated[
    str | None,
    typer.Option("--predict", metavar="N,…", help="Predict the efficiency at these numbers of nodes, like 1,2,4,8."),
]
Step = Annotated[
    str | None, typer.Option("--step", metavar="TIME", help="With --predict: a step on one node, instead of a run.")
]
DataWait = Annotated[
    str | None, typer.Option("--data-wait", metavar="TIME", help="With --predict: what a step waits for data.")
]
Gradients = Annotated[
    str | None, typer.Option("--gradients", metavar="SIZE", help="With --predict: bytes of the gradients, like 100MB.")
]
Network = Annotated[
    str | None,
    typer.Option("--network", metavar="RATE/TIME", help="With --predict: the network, like 1gbit/200us."),
]
BenchFile = Annotated[
    Path | None,
    typer.Option("--results", metavar="FILE", help="With --predict: take the step from results of `drumbeat bench`."),
]


@dataclass(frozen=True)
class PredictionOptions:
    """The figures given by hand. results: of `drumbeat bench`."""

    sizes: str | None = None
    step: str | None = None
    data_wait: str | None = None
    gradients: str | None = None
    network: str | None = None
    results: Path | None = None

    def check(self) -> None:
        """Raises SpecError if an option is given without --predict."""
        named = {"--step": self.step, "--data-wait": self.data_wait, "--gradients": self.gradients}
        named |= {"--network": self.network, "--results": self.results and str(self.results)}
        given = [name for name, value in named.items() if value is not None]
        if self.sizes is None and given:
            raise SpecError(f"{given[0]} goes with --predict", where=given[0], fix="Add --predict 1,2,4,8.")
