"""The graph of a pipeline as text: its steps, what each takes, and where the pipeline's outputs are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from drumbeat.cli.terminal.screen import fill_table, fitted, heading, make_table, state_cell
from drumbeat.protocol.states import JobKind

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from drumbeat.protocol.api.jobs import StepPreview
    from drumbeat.protocol.api.pipelines import PipelineView, StepView

Step = TypeVar("Step", "StepView", "StepPreview")


def render_pipeline(pipeline: PipelineView, width: int) -> Iterator[RenderableType]:
    """The steps, each after those whose outputs it takes; and the outputs of the pipeline."""
    yield heading("Steps")
    rows = [
        (
            say_branch(step.name, level),
            _state(step),
            ", ".join(step.after),
            step.reused or (step.job if step.state else ""),
            _why(step),
        )
        for step, level in tree_of(pipeline.steps)
    ]
    yield fitted(("step", "state", "takes from", "job", "why"), rows, width, ("why",))
    if pipeline.outputs:
        yield heading("Outputs")
        missing = "none" if pipeline.state.is_terminal else "not yet"
        found = [(one.name, f"{one.step}.{one.output}", one.job or missing) for one in pipeline.outputs]
        yield fill_table(make_table("output", "given by", "job"), found)


def say_branch(name: str, level: int) -> str:
    """A step's name, as deep as it is in the tree."""
    return f"{'  ' * level}{'└ ' if level else ''}{name}"


def tree_of(steps: Sequence[Step]) -> Iterator[tuple[Step, int]]:
    """Each step below one that it takes from, with how deep that is: the one with the longest way to it."""
    levels: dict[str, int] = {}
    below: dict[str, list[Step]] = {"": []}
    for step in steps:
        above = max(step.after, key=lambda source: levels.get(source, 0), default="")
        levels[step.name] = levels.get(above, 0) + 1 if above else 0
        below.setdefault(above, []).append(step)

    rest = below[""][::-1]
    while rest:
        step = rest.pop()
        yield step, levels[step.name]
        rest += below.get(step.name, [])[::-1]


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
