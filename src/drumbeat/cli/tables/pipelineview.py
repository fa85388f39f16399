"""The graph of a pipeline as text: its steps, what each takes, and where the pipeline's outputs are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from drumbeat.cli.terminal.screen import fill_table, fitted, heading, make_table, state_cell
from drumbeat.protocol.states import JobKind

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from drumbeat.protocol.api.pipelines import PipelineView, StepView


def render_pipeline(pipeline: PipelineView, width: int) -> Iterator[RenderableType]:
    """The steps, each after those whose outputs it takes; and the outputs of the pipeline."""
    levels = levels_of(pipeline)
    yield heading("Steps")
    rows = [
        (
            f"{'  ' * levels[step.name]}{'└ ' if levels[step.name] else ''}{step.name}",
            _state(step),
            ", ".join(step.after),
            step.reused or (step.job if step.state else ""),
            _why(step),
        )
        for step in pipeline.steps
    ]
    yield fitted(("step", "state", "takes from", "job", "why"), rows, width, ("why",))
    if pipeline.outputs:
        yield heading("Outputs")
        found = [(one.name, f"{one.step}.{one.output}", one.job or "not yet") for one in pipeline.outputs]
        yield fill_table(make_table("output", "given by", "job"), found)


def levels_of(pipeline: PipelineView) -> dict[str, int]:
    """Returns how many steps come before each one on the longest way to it."""
    levels: dict[str, int] = {}
    for step in pipeline.steps:
        levels[step.name] = max((levels.get(source, 0) + 1 for source in step.after), default=0)
    return levels


def _state(step: StepView) -> Text:
    if step.state is not None and not step.reused:
        return state_cell(step.state)
    return state_cell(step.status)


def _why(step: StepView) -> str:
    if step.skipped:
        return step.skipped
    if step.reused:
        return "nothing has changed"
    kind = "a sweep: " if step.type == JobKind.SWEEP else ""
    return f"{kind}{step.sentence}"
