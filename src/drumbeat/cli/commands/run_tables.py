"""Tables of runs for `drumbeat list --columns --where --sort --group-by`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from drumbeat.cli.terminal.formatting import format_duration, format_moment
from drumbeat.cli.terminal.json_output import print_json
from drumbeat.cli.terminal.screen import fill_table, make_table, show, state_cell

if TYPE_CHECKING:
    from rich.table import Table

    from drumbeat.model.api.runs import GroupCell, RunColumn, RunTableView

COLUMNS_HELP = "Show these fields: state, input.lr, param.NAME, tag.NAME, metric.NAME, min(metric.NAME), …"
WHERE_HELP = (
    "List only jobs that meet this filter: MLflow's grammar, with more fields and ~ for regular expressions. "
    "`metric.val/loss < 0.5 and input.lr >= 0.01 and error ~ KeyError`"
)
SORT_HELP = "Sort by these fields, each with desc if it descends: `metric.val/acc desc, name`."
GROUP_BY_HELP = "List groups of jobs with the same values of these fields, with mean ± deviation of each column."


def list_runs(table: RunTableView, group_by: str, *, as_json: bool) -> None:
    """Prints a table of runs, or its groups."""
    if as_json:
        print_json(table)
    elif not table.total:
        print("no jobs")
    else:
        show(group_table(table, group_by) if table.groups else run_table(table))
        if not table.groups and len(table.runs) < table.total:
            print(f"{len(table.runs):,} of {table.total:,} jobs; --limit shows more")


def quoted(value: str) -> str:
    """Returns a value as a filter has it in quotes."""
    return "'" + value.replace("'", "''") + "'"


def run_table(table: RunTableView) -> Table:
    """Returns a table with a row for each run."""
    titles = [f"{'' if column.unit == 'text' else '>'}{column.field}" for column in table.columns]
    rows = [(run.job, *map(_format, table.columns, run.values)) for run in table.runs]
    return fill_table(make_table("job", *titles), rows)


def group_table(table: RunTableView, group_by: str) -> Table:
    """Returns a table with a row for each group of runs."""
    columns = [n for n in range(len(table.columns)) if any(_is_told(group.cells[n]) for group in table.groups)]
    titles = [f">{table.columns[n].field}" for n in columns]
    rows = [
        (
            ", ".join("–" if value is None else _number(value) for value in group.values),
            f"{len(group.jobs):,}",
            *(_format_group(table.columns[n], group.cells[n]) for n in columns),
        )
        for group in table.groups
    ]
    return fill_table(make_table(group_by, ">jobs", *titles), rows)


def _is_told(cell: GroupCell) -> bool:
    return cell.numbers > 0 or cell.common is not None


def _format_group(column: RunColumn, cell: GroupCell) -> object:
    if cell.common is not None or cell.mean is None or column.unit == "time":
        return "" if cell.common is None else _format(column, cell.common)
    if cell.spread is None:
        return _format(column, cell.mean)
    return f"{_format(column, cell.mean)} ± {_format(column, cell.spread)}"


def _format(column: RunColumn, value: object) -> object:
    if value is None:
        return ""
    if column.field == "state":
        return state_cell(str(value))
    if isinstance(value, int | float) and column.unit == "duration":
        return format_duration(timedelta(seconds=value))
    if isinstance(value, int | float) and column.unit == "time":
        return format_moment(datetime.fromtimestamp(value / 1000, UTC))
    return _number(value)


def _number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, int | float) else str(value)
