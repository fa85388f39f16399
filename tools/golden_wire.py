"""Writes golden files of a version: a JSON document of every wire type, with no field at its default.

Run by the Python of a checkout of that version (tests/golden/README.md): the types are found by their names there, so
that nothing here depends on where this version has them.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import pkgutil
import sys
import tempfile
import types
import typing
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

ROOMS = {
    "agents": (
        "protocol.agent:AgentStatus protocol.agent:Directive protocol.agent:Enrolment protocol.input_listing:Listing "
        "protocol.input_listing:Link protocol.stacks:NodeFacts"
    ),
    "node_files": (
        "protocol.keeper:KeeperState protocol.keeper:ErrandRequest protocol.keeper:ErrandResult "
        "protocol.preflight:NodeCheck protocol.agent:Remark agent.ground.gpu_readings:GpuReading "
        "client.discovery:ServerAddress stores.folder.outputs:Manifest"
    ),
    "records": (
        "core.life.job:Job core.life.events:StoryEntry core.life.events:StartGang core.life.events:StopGang "
        "core.life.events:KeepStory core.life.events:PublishOutputs core.life.events:ProposeTrials "
        "core.life.events:SubmitChild core.life.events:CancelChild core.life.events:SendNotice "
        "core.life.events:AgentSaid core.life.events:CancelRequested core.life.events:ValueLogged "
        "core.life.events:CheckpointSaved protocol.api.requests:JobRequest"
    ),
}
"""By file, `module:class` below `drumbeat` of what agents and servers say, lies on nodes, and lies in databases."""
SUPERVISOR_REQUESTS = (
    "protocol.keeper:Patience protocol.keeper:StartRound protocol.keeper:StartSessions protocol.keeper:StopRound "
    "protocol.keeper:LeaveNode protocol.keeper:Retire protocol.keeper:Adopt protocol.keeper:Probe"
)
"""What an agent says to its supervisor, each with the word that tells it from the others."""
METRICS = (
    "protocol.metrics:RunCreated protocol.metrics:RunUpdated protocol.metrics:RunDeleted protocol.metrics:RunRestored "
    "protocol.metrics:PointsLogged protocol.metrics:ParamsLogged protocol.metrics:TagsSet protocol.metrics:TagDeleted "
    "protocol.metrics:InputsLogged protocol.metrics:OutputsLogged"
)
"""Records of metrics, which have a form of their own: the spool of a node, a line for each."""
METRIC_FIELDS: dict[str, dict[str, Any]] = {
    "RunUpdated": {"status": "FINISHED"},
    "InputsLogged": {"datasets": ({"dataset": {"name": "digits"}, "tags": [{"key": "split", "value": "train"}]},)},
}
"""Values that are checked."""
API = "protocol.api"
"""Every class in there that isn't a part of another one is of the file `api`."""

WIDTH = 120


class Sampler:
    """Makes values that no field has by default. parts: the classes that values had in them."""

    def __init__(self) -> None:
        self._numbers = itertools.count(7)
        self.parts = set[type]()

    def value(self, kind: Any, name: str, default: Any = None) -> Any:
        """A value of that type; texts say which field they are in."""
        origin, options = typing.get_origin(kind), typing.get_args(kind)
        if origin is typing.Annotated:
            return self.value(options[0], name, default)
        if origin in (typing.Union, types.UnionType):
            return self.value(next(one for one in options if one is not type(None)), name, default)
        if origin is typing.Literal:
            return next(one for one in reversed(options) if one != default)
        if origin is tuple:
            return self._tuple(options, name)
        if origin is list:
            return [self.value(options[0], name)]
        if origin is not None and issubclass(origin, typing.Mapping):
            return {f"a {name}": self.value(options[1], name)}
        if dataclasses.is_dataclass(kind):
            return self.document(typing.cast("type", kind))
        if hasattr(kind, "_fields"):
            return kind(*(self.value(one, field) for field, one in typing.get_type_hints(kind).items()))
        return self._scalar(kind, name, default)

    def document(self, kind: type) -> Any:
        """A value of a dataclass."""
        hints = typing.get_type_hints(kind, include_extras=True)
        values = {
            one.name: self.value(hints[one.name], one.name, one.default)
            for one in dataclasses.fields(kind)
            if one.init and not (one.name == "kind" and isinstance(one.default, str))  # What tells variants apart.
        }
        made = kind(**values)
        self.parts.update(type(one) for one in values.values() if dataclasses.is_dataclass(one))
        return made

    def _tuple(self, options: tuple[Any, ...], name: str) -> tuple[Any, ...]:
        inner = typing.get_args(options[0]) if typing.get_origin(options[0]) is types.UnionType else ()
        variants = [one for one in inner if one is not type(None)] or [options[0]]
        made = tuple(self.value(one, name) for one in variants)
        self.parts.update(type(one) for one in made if dataclasses.is_dataclass(one))
        return (*made, None) if type(None) in inner else made

    def _scalar(self, kind: Any, name: str, default: Any) -> Any:
        number = next(self._numbers)
        if kind is bool:
            return default is not True
        if kind is datetime:
            return datetime(2031, 5, 6, 12, 0, 0, 250_000, UTC) + timedelta(seconds=number)
        if isinstance(kind, type) and issubclass(kind, Enum):
            return next(one for one in reversed(list(kind)) if one != default)
        makers = {str: f"the {name.replace('_', ' ')} ü", int: number, float: number + 0.5}
        return makers.get(typing.cast("type", kind), {"any": [name, number, None, True]})


def in_api(package: str) -> Iterator[type]:
    """The public dataclasses of the API."""
    for module in pkgutil.iter_modules(import_module(package).__path__, f"{package}."):
        for one in vars(import_module(module.name)).values():
            if isinstance(one, type) and dataclasses.is_dataclass(one) and one.__module__ == module.name:
                yield one


def named(words: str) -> Iterator[type]:
    """The classes that `ROOMS` names."""
    for word in words.split():
        module, _, name = word.partition(":")
        yield getattr(import_module(f"drumbeat.{module}"), name)


def documents(kinds: list[type], *, is_of_api: bool) -> dict[str, Any]:
    """By class name, the document of each; of the API only those that no other document has in it."""
    to_wire, sampler = import_module("drumbeat.protocol.wire").to_wire, Sampler()
    made = {kind: to_wire(sampler.document(kind)) for kind in kinds}
    return {kind.__name__: one for kind, one in made.items() if not (is_of_api and kind in sampler.parts)}


def supervisor_requests() -> list[Any]:
    """The request of each kind."""
    encode = import_module("drumbeat.protocol.keeper").encode_request
    return [json.loads(encode(Sampler().document(kind))) for kind in named(SUPERVISOR_REQUESTS)]


def spool() -> list[str]:
    """The lines of a node's spool with one record of each kind."""
    line_of, run = import_module("drumbeat.protocol.metric_lines").line_of, "0123456789abcdef" * 2
    records = [
        dataclasses.replace(Sampler().document(kind), run=run, **METRIC_FIELDS.get(kind.__name__, {}))
        for kind in named(METRICS)
    ]
    return [line_of(record).decode().rstrip() for record in records]


def supervisor_files() -> dict[str, str]:
    """What a supervisor leaves on its node for the agents and supervisors after it."""
    records = import_module("drumbeat.agent.keeper.round_records").Records
    kept_exit = import_module("drumbeat.protocol.keeper").KeptExit
    with tempfile.TemporaryDirectory() as folder:
        kept = records(folder)
        kept.write_round(3, over=False, lost=True, abandoned=True, ranks=2, is_restarted=True)
        kept.add_exit(3, kept_exit(1, None, 9, 1.5, 0, is_stopped=True, error="an error", launcher="mpirun ended"))
        texts = {one.name: one.read_text() for one in Path(folder).iterdir()}
    boot = import_module("drumbeat.agent.keeper.round_records").boot()
    return {name: text.replace(boot, "the boot") for name, text in sorted(texts.items())}


def pretty(value: Any, key: str = "", indent: str = "") -> str:
    """JSON, with a line for what fits on one."""
    begin, inner = indent + (f"{json.dumps(key)}: " if key else ""), f"{indent} "
    line = begin + json.dumps(value, ensure_ascii=False)
    if len(line) < WIDTH or not isinstance(value, dict | list):
        return line
    if isinstance(value, dict):
        items = [pretty(one, name, inner) for name, one in typing.cast("dict[str, Any]", value).items()]
        return f"{begin}{{\n" + ",\n".join(items) + f"\n{indent}}}"
    items = [pretty(one, "", inner) for one in typing.cast("list[Any]", value)]
    return f"{begin}[\n" + ",\n".join(items) + f"\n{indent}]"


def main() -> None:
    """Writes the files into the folder that is named."""
    folder = Path(sys.argv[1])
    rooms = {room: documents(list(named(words)), is_of_api=False) for room, words in ROOMS.items()}
    rooms["node_files"] |= {"requests": supervisor_requests(), "spool": spool(), **supervisor_files()}
    rooms["api"] = documents(list(in_api(f"drumbeat.{API}")), is_of_api=True)
    for room, made in rooms.items():
        (folder / f"{room}.json").write_text(pretty(made) + "\n")


if __name__ == "__main__":
    main()
