"""The options of `plan --predict`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from drumbeat.protocol.errors import SpecError

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
    """What was given by hand. results: of `drumbeat bench`."""

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
