"""The commands by their names. A module is imported when one of its commands is typed, or when all are listed."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer

from drumbeat.cli.job_options.command_line import JobCommand
from drumbeat.cli.terminal.help import add_command


@dataclass(frozen=True)
class CommandEntry:
    """A command, or a family of commands.

    place: the module in `cli.commands`, and the name of a function in it, or of a family's `typer.Typer`.
    example: of a command; "" = it is a family. takes_more: see `add_command`. has_words: it takes words behind `--`.
    """

    place: str
    example: str = ""
    takes_more: bool = False
    has_words: bool = False

    def load(self, name: str) -> Any:
        """Returns the command, made from its module."""
        module, _, attribute = self.place.partition(":")
        source = getattr(import_module(f"drumbeat.cli.commands.{module}"), attribute)
        if not self.example:
            family = typer.main.get_group(source)
            family.name, family.rich_help_panel = name, _GROUP_OF.get(name)
            return family
        alone = typer.Typer(add_completion=False)
        cls = JobCommand if self.has_words else None
        add_command(alone, name, source, self.example, takes_more=self.takes_more, cls=cls)
        command: Any = typer.main.get_command(alone)
        command.rich_help_panel = _GROUP_OF.get(name)
        return command


COMMANDS = {
    "plan": CommandEntry("run:plan", "drumbeat plan job.yml --set inputs.epochs=3", has_words=True),
    "run": CommandEntry("run:run", "drumbeat run job.yml --set inputs.epochs=3", has_words=True),
    "init": CommandEntry("init:init", "drumbeat init train.py"),
    "list": CommandEntry("jobs:list_jobs", "drumbeat list --state running"),
    "show": CommandEntry("jobs:show_job", "drumbeat show @last"),
    "metrics": CommandEntry("metrics:metrics", "drumbeat metrics @last loss accuracy"),
    "resources": CommandEntry("resources:resources", "drumbeat resources @last"),
    "compare": CommandEntry("metrics:compare", "drumbeat compare cifar-7f3a cifar-81bc"),
    "logs": CommandEntry("logs:logs", "drumbeat logs -f @last --rank 0"),
    "stacks": CommandEntry("running_jobs:stacks", "drumbeat stacks @last --rank 3"),
    "exec": CommandEntry("running_jobs:exec_", "drumbeat exec @last --rank 3 -- nvidia-smi"),
    "ssh": CommandEntry("running_jobs:ssh", "drumbeat ssh @last"),
    "open": CommandEntry("running_jobs:open_service", "drumbeat open @last tensorboard"),
    "cancel": CommandEntry("jobs:cancel", "drumbeat cancel @last --wait"),
    "wait": CommandEntry("jobs:wait", "drumbeat wait @last --timeout 3600"),
    "download": CommandEntry("download:download", "drumbeat download @last --to results", takes_more=True),
    "note": CommandEntry("labels:note", 'drumbeat note @last "the best so far: **0.83**"'),
    "tag": CommandEntry("labels:tag", "drumbeat tag cifar-7f3a team=vision"),
    "archive": CommandEntry("jobs:archive", "drumbeat archive cifar-7f3a"),
    "restore": CommandEntry("jobs:restore", "drumbeat restore cifar-7f3a"),
    "delete": CommandEntry("delete_prune_usage:delete", "drumbeat delete cifar-7f3a"),
    "prune": CommandEntry("delete_prune_usage:prune", "drumbeat prune --older-than 30d --keep-outputs"),
    "usage": CommandEntry("delete_prune_usage:usage", "drumbeat usage"),
    "ledger": CommandEntry("ledger:ledger", "drumbeat ledger --by experiment --since 7d"),
    "login": CommandEntry("login:login", "drumbeat login https://train.example.org:8470"),
    "logout": CommandEntry("login:logout", "drumbeat logout"),
    "audit": CommandEntry("audit:audit", "drumbeat audit --since 7d --refused"),
    "top": CommandEntry("top:top", "drumbeat top"),
    "ui": CommandEntry("running_jobs:ui", "drumbeat ui --print"),
    "export": CommandEntry("export:export", "drumbeat export job.yml --to azureml -o azure.yml"),
    "rehearse": CommandEntry(
        "rehearse:rehearse", "drumbeat rehearse job.yml --set inputs.epochs=1 --faults kill,stop --runs 5"
    ),
    "bench": CommandEntry("bench:bench", "drumbeat bench --model resnet50 --ranks 1,2,4 --network 200mbit,1gbit"),
    "version": CommandEntry("version:version", "drumbeat version"),
    "alias": CommandEntry("aliases:app"),
    "server": CommandEntry("servers:server_app"),
    "compute": CommandEntry("computes:app"),
    "data": CommandEntry("data:app"),
    "datastore": CommandEntry("resource_family:datastore"),
    "environment": CommandEntry("environments:app"),
    "experiment": CommandEntry("experiments:app"),
    "component": CommandEntry("components:app"),
    "model": CommandEntry("models:app"),
    "online-endpoint": CommandEntry("online_endpoints:app"),
    "online-deployment": CommandEntry("online_deployments:app"),
    "batch-endpoint": CommandEntry("batch_endpoints:endpoint"),
    "batch-deployment": CommandEntry("batch_endpoints:deployment"),
    "notice": CommandEntry("resource_family:notice"),
    "registry": CommandEntry("resource_family:registry"),
    "schedule": CommandEntry("schedules:app"),
    "sweep": CommandEntry("sweeps:app"),
    "azure": CommandEntry("azure:app"),
    "token": CommandEntry("tokens:app"),
    "quota": CommandEntry("quotas:app"),
}
"""Every command."""

GROUPS = {
    "Run jobs": ("plan", "run", "schedule", "init", "export", "rehearse"),
    "Look at jobs": ("list", "show", "logs", "metrics", "resources", "compare", "note", "tag", "stacks", "top", "ui"),
    "Reach running jobs": ("exec", "ssh", "open"),
    "End, keep and delete jobs": ("cancel", "wait", "download", "archive", "restore", "delete", "prune"),
    "Data and what jobs share": ("data", "model", "datastore", "environment", "component", "experiment", "sweep"),
    "Answer requests": ("online-endpoint", "online-deployment"),
    "Score data": ("batch-endpoint", "batch-deployment"),
    "Computes": ("compute", "alias", "registry", "bench"),
    "The server and its users": (
        "server",
        "login",
        "logout",
        "token",
        "quota",
        "audit",
        "notice",
        "azure",
        "usage",
        "ledger",
        "version",
    ),
}
"""The headings of the help, each with its commands in their order."""
_GROUP_OF = {name: title for title, names in GROUPS.items() for name in names}


class LateCommands(MutableMapping[str, Any]):
    """The commands of the table; one is made when it is asked for."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = COMMANDS[name].load(name)
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*_GROUP_OF, *COMMANDS, *self._made)))

    def __len__(self) -> int:
        return len(set(COMMANDS) | set(self._made))
