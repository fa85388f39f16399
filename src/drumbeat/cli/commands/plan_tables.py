"""The output of `plan`: the rank table, the command, and environments; of sweeps a summary; of pipelines the graph."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from drumbeat.cli.terminal.formatting import count, format_launch
from drumbeat.cli.terminal.screen import cell, fill_table, fitted, heading, indented, make_table, pairs, state_cell
from drumbeat.model.conditions import ConditionAction
from drumbeat.model.mesh import format_mesh, format_place
from drumbeat.model.states import JobKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from drumbeat.model.api.jobs import PreviewView, StepPreview
    from drumbeat.model.api.pipelines import PipelineView, StepView
    from drumbeat.model.plan import ImageBuild, Plan, PythonEnvironment, RankRuntime, RankTable, ServicePlan
    from drumbeat.model.process import ProcessSpec


NODES_SHOWN, RANKS_SHOWN = 8, 64
"""Nodes whose own variables are listed, and rows of ranks; `--full` lists all."""
Variables = dict[str, str]


def render_plan(preview: PreviewView, *, full: bool = False, verbose: bool = False) -> Iterator[RenderableType]:
    """Yields the page, part by part. full: each process in full; verbose: removed variables, too."""
    if preview.never:
        yield from _refusal(preview)
        return
    if preview.sweep:
        yield from _sweep(preview)
    elif preview.steps:
        yield from _steps(preview)
    else:
        yield from _facts_of_job(preview)
    if full or verbose or not preview.parent:
        yield from _processes(preview, full=full, verbose=verbose)
    of_step = f" of {preview.steps[0].name}, the first step" if preview.steps else ""
    yield heading(f"Staged on each node{of_step}")
    yield from _sentences(preview.staged or ("nothing",))
    yield heading(f"Queue{of_step}")
    yield from _sentences((preview.queue,))
    if preview.script:
        yield heading("Handed to the scheduler")
        yield from _sentences(preview.script.splitlines())
    yield from _notes(preview)


def _processes(preview: PreviewView, *, full: bool, verbose: bool) -> Iterator[RenderableType]:
    """Yields the ranks, their commands and variables; of a sweep an example trial's, of a pipeline the first step's."""
    yield heading(f"Ranks{f' of {preview.plan.job}' if preview.parent else ''}")
    yield from _rank_table(preview, full=full)
    yield from _prepared(preview)
    yield from _line(preview)
    if full:
        yield from _full_processes(preview, verbose=verbose)
    else:
        yield from _commands(preview)
        yield from _environments(preview, verbose=verbose)


# --- sweeps and pipelines ---------------------------------------------------------------------------------------
def _sweep(preview: PreviewView) -> Iterator[RenderableType]:
    yield cell(f"{preview.parent} would run {preview.sweep}; nothing has been started.")
    yield heading("Each trial")
    command = dict.fromkeys(_command(process) for process in preview.processes[:1])
    yield pairs([("runs", _launch(preview.plan)), *_facts(preview.plan), *(("example", one) for one in command)])
    yield _hint("the ranks and variables of an example trial")


def _steps(preview: PreviewView) -> Iterator[RenderableType]:
    """Yields the graph, then a table for each kind of step."""
    yield cell(f"{preview.parent} would run {count(len(preview.steps), 'step')}; nothing has been started.")
    yield heading("Graph")
    graph = [
        (format_branch(one.name, level), one.type, ", ".join(one.after)) for one, level in step_tree(preview.steps)
    ]
    yield fill_table(make_table("step", "kind", "takes from"), graph)
    commands = [one for one in preview.steps if not one.sweep]
    if commands:
        yield heading("Commands")
        rows = [(one.name, _step_launch(one), one.compute, one.environment, one.command) for one in commands]
        yield fill_table(make_table("step", "runs", "compute", "environment", "command"), rows)
    sweeps = [one for one in preview.steps if one.sweep]
    if sweeps:
        yield heading("Sweeps")
        rows = [(one.name, one.sweep, _step_launch(one), one.compute, one.environment) for one in sweeps]
        yield fill_table(make_table("step", "trials", "each runs", "compute", "environment"), rows)
    yield _hint("the ranks and variables of the first step")


def _step_launch(step: StepPreview) -> str:
    return format_launch(step.launcher, step.nodes, step.processes_per_node, step.world_size)


def _hint(what: str) -> RenderableType:
    return cell(f"--verbose shows {what}", "dim")


# --- one job ----------------------------------------------------------------------------------------------------
def _refusal(preview: PreviewView) -> Iterator[RenderableType]:
    """Yields the refusal, and what the job asked for."""
    yield cell(preview.queue, "red")
    yield pairs([("job", preview.plan.job), ("asks for", _launch(preview.plan))])
    yield from _notes(preview)


def _facts_of_job(preview: PreviewView) -> Iterator[RenderableType]:
    plan = preview.plan
    yield cell(f"{plan.job} would run {_launch(plan)}; nothing has been started.")
    yield pairs(_facts(plan))


def _facts(plan: Plan) -> list[tuple[str, object]]:
    """Returns where the job runs and in what; empty rows are left out."""
    return [
        ("experiment", plan.experiment),
        ("compute", plan.compute),
        ("environment", plan.environment if plan.python or plan.container else "the current interpreter"),
        ("made of", _describe_environment(plan)),
        ("container", plan.container.image if plan.container else "none"),
        ("registries", _registries(plan)),
        ("devices", f"{plan.gpus_per_node} GPUs per node" if plan.gpus_per_node else "no GPUs"),
        ("mesh", format_mesh(plan.mesh)),
        ("nodes", plan.elastic or ""),
        ("outputs", ", ".join(output.name for output in plan.outputs)),
        ("stops when", _conditions(plan, ConditionAction.STOP)),
        ("notifies when", _conditions(plan, ConditionAction.NOTIFY)),
        ("services", ", ".join(_service(one) for one in plan.services)),
    ]


def _conditions(plan: Plan, action: ConditionAction) -> str:
    return "; ".join(str(one) for one in plan.conditions if one.action is action)


def _service(one: ServicePlan) -> str:
    where = " on each node" if one.is_everywhere else ""
    return f"{one.name} ({one.type}{f' at port {one.port}' if one.port else ''}){where}"


def _describe_environment(plan: RankRuntime) -> str:
    """Describes what the nodes build before the ranks start; "" = nothing."""
    if plan.container and plan.container.build:
        return _built(plan.container.build)
    if plan.python is None:
        return ""
    where = f", written in {plan.python.source}" if plan.python.source else ""
    return f"{format_content(plan.python)}; key {plan.python.key[:12]}{where}"


def _built(build: ImageBuild) -> str:
    needs = f", which needs {', '.join(build.bases)}" if build.bases else ""
    key = f"{needs}; once; key {build.key[:12]}"
    if build.pushed_as:
        return f"built by node 0 from {build.source} and pushed to {build.pushed_as.rpartition('/')[0]}{key}"
    return f"built on each node from {build.source}{key}"


def _registries(plan: RankRuntime) -> str:
    """Names the registries whose credentials the nodes get; "" = none."""
    names = plan.container.registries if plan.container else ()
    return f"{', '.join(names)}: their credentials are given to the nodes" if names else ""


def _prepared(preview: PreviewView) -> Iterator[RenderableType]:
    if preview.plan.prepare:
        yield heading("Run on each node before the ranks")
        yield from _sentences(preview.plan.prepare.splitlines())


def _launch(plan: RankTable) -> str:
    return format_launch(plan.launcher, plan.nodes, plan.processes_per_node, plan.world_size)


def _rank_table(preview: PreviewView, *, full: bool) -> Iterator[RenderableType]:
    ranks = preview.plan.ranks if full else preview.plan.ranks[:RANKS_SHOWN]
    names = preview.plan.names
    mesh = preview.plan.mesh
    rows = [
        (rank.node, rank.rank, rank.local_rank, names.get(rank.rank, rank.role), *_place(mesh, rank.rank))
        for rank in ranks
    ]
    yield fill_table(
        make_table(">node", ">rank", ">local rank", "role", *(["place in the mesh"] if mesh else [])), rows
    )
    yield from _more(len(preview.plan.ranks) - len(ranks))


def _place(mesh: Mapping[str, int], rank: int) -> Sequence[str]:
    return [format_place(mesh, rank)] if mesh else []


def _notes(preview: PreviewView) -> Iterator[RenderableType]:
    if preview.notes:
        yield heading("Notes")
        yield from _sentences(preview.notes)


def _sentences(sentences: Iterable[str]) -> Iterator[RenderableType]:
    for sentence in sentences:
        yield indented(sentence)


# --- what several ranks have alike ------------------------------------------------------------------------------
def _line(preview: PreviewView) -> Iterator[RenderableType]:
    if preview.line:
        yield heading("Launched by node 0 (as for Open MPI 4; the MPI that the nodes have decides)")
        yield from _sentences((preview.line,))


def _commands(preview: PreviewView) -> Iterator[RenderableType]:
    yield heading("Command")
    yield from _alike(preview, _command)
    yield heading("Working folder")
    yield from _alike(preview, lambda process: process.cwd)


def _alike(preview: PreviewView, value: Callable[[ProcessSpec], str]) -> Iterator[RenderableType]:
    """Yields a value of every process: once, or once for each group of consecutive ranks with the same value."""
    groups = [(same, [p.rank for p in members]) for same, members in groupby(preview.processes, key=value)]
    for same, ranks in groups[:NODES_SHOWN]:
        who = "" if len(groups) == 1 else f"{_span(ranks)}: "
        yield indented(who + same)
    yield from _more(len(groups) - NODES_SHOWN)


def _command(process: ProcessSpec) -> str:
    is_shell = process.argv[:2] == ("/bin/bash", "-c")
    return process.argv[-1] if is_shell else " ".join(process.argv)


def _span(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"ranks {ranks[0]}-{ranks[-1]}"
    some = [str(rank) for rank in (ranks if len(ranks) <= NODES_SHOWN else (*ranks[:2], "…", ranks[-1]))]
    return f"ranks {', '.join(some)}"


def _more(left: int) -> Iterator[RenderableType]:
    if left > 0:
        yield cell(f"  … and {left:,} more; --full shows each process whole", "dim")


# --- environments -----------------------------------------------------------------------------------------------
def _environments(preview: PreviewView, *, verbose: bool) -> Iterator[RenderableType]:
    """Yields the variables that all ranks share, then those of each node, then those of each rank."""
    processes = preview.processes
    if not processes:
        return
    shared, of_node, of_rank = split_names(preview)
    yield heading("Environment of every rank")
    yield _variables(processes[0], shared, verbose=verbose)
    if of_node:
        yield heading("… and of each node")
        yield from _node_table(preview, of_node)
    if of_rank:
        yield heading("… and of each rank")
        shown = sorted(processes, key=lambda process: process.rank)[:RANKS_SHOWN]
        rows = [(p.rank, *(p.set.get(name) for name in of_rank)) for p in shown]
        yield fill_table(make_table(">rank", *of_rank), rows)
        yield from _more(len(processes) - RANKS_SHOWN)


def split_names(preview: PreviewView) -> tuple[list[str], list[str], list[str]]:
    """Returns the names of the variables that are shared by all ranks, shared on each node, and a rank's own."""
    names = sorted({name for process in preview.processes for name in process.set})
    node_of = {rank.rank: rank.node for rank in preview.plan.ranks}
    shared: list[str] = []
    of_node: list[str] = []
    of_rank: list[str] = []
    for name in names:
        by_node = {(node_of.get(p.rank), p.set.get(name)) for p in preview.processes}
        if len({value for _, value in by_node}) == 1:
            shared.append(name)
        elif len(by_node) == preview.plan.nodes and preview.plan.processes_per_node > 1:
            of_node.append(name)
        else:
            of_rank.append(name)
    return shared, of_node, of_rank


def _node_table(preview: PreviewView, names: list[str]) -> Iterator[RenderableType]:
    first = {rank.node: rank.rank for rank in reversed(preview.plan.ranks)}
    by_rank = {process.rank: process.set for process in preview.processes}
    shown = sorted(first)[:NODES_SHOWN]
    rows = [("" if i else node, name, by_rank[first[node]].get(name)) for node in shown for i, name in enumerate(names)]
    yield fill_table(make_table(">node", "variable", "value"), rows)
    yield from _more(len(first) - NODES_SHOWN)


def _variables(process: ProcessSpec, names: Iterable[str], *, verbose: bool) -> Table:
    """Returns the variables that are set, defaults, and with `verbose` the patterns of those that are removed."""
    titles = ("set", "defaulted", "removed") if verbose else ("set", "defaulted")
    table = make_table(*titles)
    table.expand = True
    for column, ratio in zip(table.columns, (4, 2, 2), strict=False):
        column.ratio = ratio
    cells = ["\n".join(f"{n}={process.set[n]}" for n in names), "\n".join(_assigned(process.defaulted))]
    table.add_row(*map(cell, [*cells, ", ".join(process.scrubbed)][: len(titles)]))
    if process.path_first:
        table.add_row(cell(f"PATH={':'.join(process.path_first)}:…"))
    return table


def _assigned(variables: Variables) -> list[str]:
    return [f"{name}={value}" for name, value in sorted(variables.items())]


def _full_processes(preview: PreviewView, *, verbose: bool) -> Iterator[RenderableType]:
    node_of = {rank.rank: rank.node for rank in preview.plan.ranks}
    for process in preview.processes:
        place = f"node {node_of.get(process.rank)} · local rank {process.local_rank} · {process.role}"
        yield heading(f"Rank {process.rank} · {place}")
        yield pairs([("command", _command(process)), ("folder", process.cwd), ("log", process.log)])
        yield _variables(process, sorted(process.set), verbose=verbose)


Step = TypeVar("Step", "StepView", "StepPreview")


def render_pipeline(pipeline: PipelineView, width: int) -> Iterator[RenderableType]:
    """Yields the steps, each after those whose outputs it takes, and the outputs of the pipeline."""
    yield heading("Steps")
    rows = [
        (
            format_branch(step.name, level),
            _state(step),
            ", ".join(step.after),
            step.reused or (step.job if step.state else ""),
            _why(step),
        )
        for step, level in step_tree(pipeline.steps)
    ]
    yield fitted(("step", "state", "takes from", "job", "why"), rows, width, ("why",))
    if pipeline.outputs:
        yield heading("Outputs")
        missing = "none" if pipeline.state.is_terminal else "not yet"
        outputs = [(one.name, f"{one.step}.{one.output}", one.job or missing) for one in pipeline.outputs]
        yield fill_table(make_table("output", "given by", "job"), outputs)


def format_branch(name: str, level: int) -> str:
    """Formats a step's name, indented by its level in the tree."""
    return f"{'  ' * level}{'└ ' if level else ''}{name}"


def step_tree(steps: Sequence[Step]) -> Iterator[tuple[Step, int]]:
    """Yields each step with its level, below the input step with the longest path to it."""
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


def format_content(made: PythonEnvironment | None) -> str:
    """`3 packages with pip, 1 with conda, horovod from source, Python 3.11`."""
    if made is None:
        return ""
    pip = sum(not line.startswith("-") for line in made.requirements)
    parts = [f"{count(pip, 'package')} with pip", *([f"{len(made.conda)} with conda"] if made.conda else [])]
    parts += [f"{', '.join(one.package for one in made.builds)} from source"] if made.builds else []
    return ", ".join([*parts, f"Python {made.python}" if made.python else "any Python"])
