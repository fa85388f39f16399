"""`quota`: how much users and experiments may use at a time, and what they have used recently."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.cli.terminal.age import parse_age
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.help import Yes, new_family

if TYPE_CHECKING:
    from drumbeat.model.api.users import QuotaView

app = new_family("Limit what users and experiments use at a time; see what they have used.")


class QuotaSubject(StrEnum):
    """What has quotas."""

    USER = "person"
    EXPERIMENT = "experiment"


KindArgument = Annotated[QuotaSubject, typer.Argument(metavar="KIND", help="user or experiment.")]
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Its name; '*' means each one without a quota of its own.")
]


@app.command("list", epilog="Example: drumbeat quota list")
def list_quotas() -> None:
    """List all quotas."""
    from drumbeat.cli.terminal.screen import fill_table, make_table, show

    quotas = connect().quotas()
    if not quotas:
        print("no quotas; set one: drumbeat quota set person ada --gpus 8")
        return
    rows = [(one.kind, one.name, *_limits(one)) for one in quotas]
    show(fill_table(make_table("kind", "name", ">CPU slots", ">GPUs", ">waiting jobs"), rows))


def _limits(quota: QuotaView) -> tuple[object, ...]:
    return tuple("" if limit is None else limit for limit in (quota.slots, quota.gpus, quota.waiting))


@app.command("use", epilog="Example: drumbeat quota use")
def show_use() -> None:
    """Show what users and experiments use now, and the recent use by which jobs of a priority are ordered."""
    from drumbeat.cli.terminal.formatting import format_duration
    from drumbeat.cli.terminal.screen import fill_table, make_table, show

    uses = connect().uses()
    rows = [
        (one.kind, one.name, one.slots, one.gpus, one.waiting, f"{one.recent_use:,.1f}" if one.kind == "person" else "")
        for one in uses.uses
    ]
    show(fill_table(make_table("kind", "name", ">CPU slots", ">GPUs", ">waiting jobs", ">recent slot-hours"), rows))
    print(f"recent use halves every {format_duration(timedelta(seconds=uses.half_life_s))}")


@app.command("set", epilog="Example: drumbeat quota set person ada --gpus 8 --waiting 20")
def set_quota(
    kind: KindArgument,
    name: NameArgument,
    slots: Annotated[int | None, typer.Option("--slots", metavar="N", min=0, help="Maximum of CPU slots.")] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", metavar="N", min=0, help="Maximum of GPUs.")] = None,
    waiting: Annotated[
        int | None, typer.Option("--waiting", metavar="N", min=0, help="Maximum of queued jobs.")
    ] = None,
) -> None:
    """Set the limits of a user or an experiment. What is left out has no limit. Running jobs continue."""
    if slots is None and gpus is None and waiting is None:
        raise typer.BadParameter("give at least one of --slots, --gpus, --waiting; to remove: drumbeat quota remove")
    quota = connect().set_quota(kind, name, slots=slots, gpus=gpus, waiting=waiting)
    words = (("CPU slots", quota.slots), ("GPUs", quota.gpus), ("waiting jobs", quota.waiting))
    print(f"{kind} {name}: at most {', '.join(f'{limit} {what}' for what, limit in words if limit is not None)}")


@app.command("remove", epilog="Example: drumbeat quota remove person ada")
def remove_quota(kind: KindArgument, name: NameArgument, _yes: Yes = False) -> None:
    """Remove a quota."""
    connect().remove_quota(kind, name)
    print(f"{kind} {name} has no quota any more")


@app.command("half-life", epilog="Example: drumbeat quota half-life 3d")
def set_half_life(
    time: Annotated[str, typer.Argument(metavar="TIME", help="Such as 12h or 7d.")],
) -> None:
    """Set after how long past use counts half when jobs are ordered."""
    connect().set_half_life(parse_age(time, "TIME"))
    print(f"recent use halves every {time}")
