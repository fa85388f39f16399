"""`experiment`: lists, shows, renames, archives and restores groups of jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.cli.commands.job_tables import job_table
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.formatting import format_ago, format_moment
from drumbeat.cli.terminal.help import AsJson, add_command, new_family
from drumbeat.cli.terminal.json_output import print_json
from drumbeat.cli.terminal.screen import fill_table, make_console, make_table, pairs, show
from drumbeat.model.errors import RefusedError, SpecError
from drumbeat.model.primary_metrics import PRIMARY_TAG, parse_goal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.table import Table

    from drumbeat.model.api.metrics import ExperimentView

app = new_family("List and rename experiments, which group jobs. A job names its own with `experiment_name`.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The experiment's name, or an earlier one.")]
MAX_JOBS = 50
"""Jobs that `show` prints."""


def list_experiments(
    all_: Annotated[bool, typer.Option("--all", "-a", help="Include archived experiments.")] = False,
    as_json: AsJson = False,
) -> None:
    """List experiments, the last created first."""
    experiments = connect().experiments(archived=all_)
    if as_json:
        print_json(experiments)
    elif not experiments:
        print("no experiments")
    else:
        show(experiment_table(experiments, datetime.now(UTC)))


def show_experiment(name: Name, as_json: AsJson = False) -> None:
    """Show an experiment and its newest jobs, each with its primary metric."""
    client = connect()
    experiment = client.experiment(name)
    if as_json:
        print_json(experiment)
        return
    jobs = [job for one in experiment.names for job in client.list(experiment=one, archived=True, limit=MAX_JOBS)]
    jobs.sort(key=lambda job: job.submitted_at, reverse=True)
    table = [job_table(jobs[:MAX_JOBS], datetime.now(UTC), make_console().width)] if jobs else []
    show(experiment_pairs(experiment), *table)


def rename(name: Name, to: Annotated[str, typer.Argument(metavar="TO", help="The new name.")]) -> None:
    """Rename an experiment. Jobs that are submitted with the earlier name still belong to it."""
    print(f"{name}: renamed to {connect().rename_experiment(name, to).name}")


def archive(name: Name) -> None:
    """Hide an experiment from lists, without deleting anything."""
    print(f"{connect().archive_experiment(name).name}: archived")


def restore(name: Name) -> None:
    """Show an archived experiment in lists again."""
    print(f"{connect().restore_experiment(name).name}: restored")


def primary(
    name: Name,
    metric: Annotated[str, typer.Argument(metavar="METRIC", help="As the jobs' scripts log it.")] = "",
    goal: Annotated[str, typer.Option("--goal", help="`max` or `min`. By default as the metric's name says.")] = "",
    clear: Annotated[bool, typer.Option("--clear", help="Leave it to each job which metric counts.")] = False,
) -> None:
    """Choose the metric that counts for all jobs of an experiment: in lists, on the page, and beside other jobs."""
    if clear == bool(metric):
        raise RefusedError("name either a metric or --clear", fix="drumbeat experiment primary mnist val/accuracy")
    if goal and parse_goal(goal) is None:
        raise SpecError(f"expected `max` or `min`, got {goal!r}", where="--goal")
    client = connect()
    if clear:
        print(f"{client.clear_primary_metric(name).name}: each job says which metric counts")
    else:
        changed = client.set_primary_metric(name, metric, parse_goal(goal))
        print(f"{changed.name}: {changed.tags[PRIMARY_TAG]}")


def experiment_table(experiments: Iterable[ExperimentView], now: datetime) -> Table:
    """Returns one row for each experiment."""
    rows = [
        (
            one.name + (" (archived)" if one.archived else ""),
            one.jobs,
            format_ago(one.latest_at, now) if one.latest_at else "",
            format_ago(one.created_at, now),
        )
        for one in experiments
    ]
    return fill_table(make_table("experiment", ">jobs", ">latest job", ">created"), rows)


def experiment_pairs(one: ExperimentView) -> Table:
    """Returns the facts of an experiment."""
    earlier = [name for name in one.names if name != one.name]
    return pairs(
        [
            ("experiment", one.name + (" (archived)" if one.archived else "")),
            ("earlier names", ", ".join(earlier)),
            ("id in MLflow", one.id),
            ("jobs", one.jobs),
            ("created", format_moment(one.created_at)),
            ("latest job", format_moment(one.latest_at) if one.latest_at else ""),
            ("tags", ", ".join(f"{key}={value}" for key, value in one.tags.items())),
        ]
    )


for name, command, example in (
    ("list", list_experiments, "drumbeat experiment list"),
    ("show", show_experiment, "drumbeat experiment show mnist"),
    ("rename", rename, "drumbeat experiment rename mnist digits"),
    ("primary", primary, "drumbeat experiment primary mnist val/accuracy --goal max"),
    ("archive", archive, "drumbeat experiment archive mnist"),
    ("restore", restore, "drumbeat experiment restore mnist"),
):
    add_command(app, name, command, example)
