"""Converts a job back to a dict or YAML text, with the keys that were set and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from drumbeat.jobfile.reading.yaml_tree import scalar

if TYPE_CHECKING:
    from drumbeat.jobfile.reading.model import Model

PLAIN = re.compile(r"[A-Za-z0-9_./$+(][A-Za-z0-9_./:@$+=~{}()-]*(?: [A-Za-z0-9_./:@$+=~{}()-]+)*")
NO_COMMENTS: Mapping[str, str] = MappingProxyType({})
FIRST = ("type", "name", "display_name", "experiment_name", "description", "command", "code")


def to_dict(job: Model) -> dict[str, Any]:
    """The keys that were set, under the dialect's names; JSON can hold it."""
    return job.model_dump(mode="json", exclude_unset=True, by_alias=True)


def dumps(job: Model) -> str:
    """The job as YAML, which `loads` reads back as an equal job."""
    return dumps_document(to_dict(job))


def dumps_document(document: Mapping[str, Any], comments: Mapping[str, str] = NO_COMMENTS) -> str:
    """A mapping as YAML. comments: by key, or by `table.key`, what stands on the lines above it."""
    order = {key: place for place, key in enumerate(FIRST)}
    keys = sorted(document, key=lambda key: order.get(key, len(order)))
    lines: list[str] = []
    for key in keys:
        lines += _comment(comments.get(key, ""), "")
        head = f"{_text(key)}:"
        nested = {name: text for name, text in comments.items() if name.startswith(f"{key}.")}
        if nested and isinstance(document[key], dict):
            lines.append(head)
            for inner, value in document[key].items():
                lines += _comment(nested.get(f"{key}.{inner}", ""), "  ")
                lines += _node(f"  {_text(inner)}:", value, "  ")
        else:
            lines += _node(head, document[key], "")
    return "\n".join(lines) + "\n"


def _comment(text: str, indent: str) -> list[str]:
    return [f"{indent}# {line}" for line in text.splitlines()]


def _entries(table: dict[str, Any], indent: str) -> Iterator[str]:
    for key, value in table.items():
        yield from _node(f"{indent}{_text(key)}:", value, indent)


def _node(head: str, value: Any, indent: str) -> Iterator[str]:
    """One key or list mark, with what stands behind or below it."""
    if isinstance(value, dict) and value:
        yield head
        yield from _entries(cast("dict[str, Any]", value), indent + "  ")
    elif isinstance(value, list) and value:
        yield head
        for item in cast("list[Any]", value):
            yield from _item(item, indent + "  ")
    elif isinstance(value, str) and _is_block(value):
        yield f"{head} |{'' if value.endswith(chr(10)) else '-'}"
        yield from (f"{indent}  {line}" if line else "" for line in value.removesuffix("\n").split("\n"))
    else:
        yield f"{head} {_text(value) if isinstance(value, str) else json.dumps(value)}"


def _item(item: Any, indent: str) -> Iterator[str]:
    """A list's item; a mapping begins on the line of its mark."""
    if isinstance(item, dict) and item:
        first, *rest = _entries(cast("dict[str, Any]", item), indent + "  ")
        yield f"{indent}- {first[len(indent) + 2 :]}"
        yield from rest
    else:
        yield from _node(f"{indent}-", item, indent)


def _is_block(text: str) -> bool:
    """Whether a text of several lines keeps its form under `|`."""
    body = text.removesuffix("\n")
    lines = body.split("\n")
    ends = bool(lines[0].strip()) and bool(lines[-1].strip())
    return len(lines) > 1 and ends and lines[0][0] not in " \t" and all(_is_simple(line) for line in lines)


def _is_simple(line: str) -> bool:
    return (line.isascii() and line.isprintable() and not line.endswith(" ")) or not line


def _text(text: str) -> str:
    """Writes a text bare where it can't be misread, else in double quotes."""
    is_key = ": " in text or text.endswith(":")
    if len(text) < 400 and PLAIN.fullmatch(text) and isinstance(scalar(text), str) and not is_key:
        return text
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if " " <= character <= "~" or ("\xa0" <= character <= "\ud7ff" and character.isprintable()):
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
