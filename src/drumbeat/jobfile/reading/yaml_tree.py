"""Parses YAML into a tree with line numbers, and stops what hostile files could do.

One pass over the parser's events, so that size, depth and number of nodes are bounded before anything is built. Plain
words mean what they mean to Azure's loader: `yes` and `no` are booleans, `1e3` is a number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from drumbeat.jobfile.reading.error_messages import shown
from drumbeat.model.errors import Problem, SpecError

MAX_BYTES = 1024 * 1024
MAX_LINES = 50_000
MAX_NODES = 20_000
MAX_DEPTH = 64
MAX_DIGITS = 400
# The parser's time grows with the square of these two.
LONG_TAG = re.compile(r"!\S{2000}")
DIRECTIVE = re.compile(r"^%", re.MULTILINE)

STANDARD = "tag:yaml.org,2002:"
FOREIGN = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
KNOWN_TAGS = {"", "!", *(STANDARD + name for name in ("str", "int", "float", "bool", "null", "map", "seq"))}
TAG_OF = {"int": "int", "float": "float", "bool": "bool", "NoneType": "null"}
WORDS_OF_TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*(?:_[0-9]+)*)|0x[0-9a-fA-F]+|0o[0-7]+")
FLOAT = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][-+]?[0-9]+)?")
SPECIAL_FLOAT = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


@dataclass
class YamlNode:
    """A node of a YAML document: a scalar's text, a list or a mapping. Lines and columns count from 0."""

    line: int
    column: int
    start: int
    end: int
    value: str | list[YamlNode] | dict[str, tuple[YamlNode, YamlNode]]
    plain: bool = False
    tag: str = ""
    size: int = field(default=1)
    depth: int = field(default=1)

    def child(self, part: str | int) -> tuple[YamlNode, YamlNode] | None:
        """The key's node and the value's node; a list's item is its own key."""
        if isinstance(self.value, dict):
            return self.value.get(str(part))
        if isinstance(self.value, list) and isinstance(part, int) and part < len(self.value):
            return self.value[part], self.value[part]
        return None


def parse(text: str, name: str, least: str = "") -> YamlNode:
    """The tree of the one document in `text`; raises `SpecError` with a line for everything else.

    least: what an empty file lacks, for that message.
    """
    refusal = _outsize(text)
    if refusal:
        raise SpecError(refusal, where=name, fix="Such files are a few pages of text.")
    # Slow to load, and not needed to build a job in Python.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        yaml: Any = YAML(typ="safe", pure=True)
        return _Reader(yaml.parse(text), name, least).document()
    except YAMLError as error:
        raise _syntax(error, name) from None
    except SpecError:
        raise
    except FOREIGN as error:
        # The parser isn't written for hostile input: some malformed escapes and directives reach Python itself.
        raise SpecError(f"not readable as YAML ({type(error).__name__})", where=name, fix="Check its syntax.") from None


def _outsize(text: str) -> str:
    """What about the text would keep the parser busy for longer than a user waits; "" if nothing."""
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return "the file is larger than 1 MiB"
    if text.count("\n") + text.count("\r") > MAX_LINES:
        return f"the file has more than {MAX_LINES:,} lines"
    if LONG_TAG.search(text):
        return "the file has a word of more than 2,000 characters behind a `!`"
    return "the file has more than 20 lines that begin with `%`" if len(DIRECTIVE.findall(text)) > 20 else ""


def _syntax(error: Any, name: str) -> SpecError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark is not None else name
    what = " ".join(part for part in (getattr(error, "context", None), getattr(error, "problem", None)) if part)
    if hasattr(error, "character"):
        return SpecError("the file holds a character that text files don't have", where=name, fix="Save it as UTF-8.")
    return SpecError(
        f"not readable as YAML: {what or 'syntax error'}", where=where, fix="Check indentation and quotes."
    )


class _Reader:
    """Reads the parser's events into nodes."""

    def __init__(self, events: Iterator[Any], name: str, least: str) -> None:
        self.events, self.name, self.least = events, name, least
        self.anchors: dict[str, YamlNode | None] = {}
        self.count = 0

    def refuse(self, event: Any, what: str, fix: str = "") -> SpecError:
        mark = event.start_mark
        return SpecError(what, where=f"{self.name}:{mark.line + 1}:{mark.column + 1}", fix=fix)

    def next(self) -> tuple[str, Any]:
        event = next(self.events)
        return type(event).__name__.removesuffix("Event"), event

    def document(self) -> YamlNode:
        kind, event = self.next()
        while kind == "StreamStart":
            kind, event = self.next()
        if kind == "StreamEnd":
            fix = f"Write at least {self.least}." if self.least else ""
            raise SpecError("the file is empty", where=self.name, fix=fix)
        root = self.node(*self.next(), 1)
        self.next()
        kind, event = self.next()
        if kind != "StreamEnd":
            raise self.refuse(event, "a second document starts here", "One file holds one; take the `---` out.")
        return root

    def node(self, kind: str, event: Any, depth: int) -> YamlNode:
        self.count += 1
        if self.count > MAX_NODES:
            raise self.refuse(event, f"the file has more than {MAX_NODES:,} values")
        if depth > MAX_DEPTH:
            raise self.refuse(event, f"nested more than {MAX_DEPTH} levels deep")
        if kind == "Alias":
            return self.alias(event, depth)
        node = self.opened(event)
        if kind == "Scalar":
            node.value = str(event.value)
            node.plain = bool(event.implicit[0]) and event.style is None
        elif kind == "SequenceStart":
            self.sequence(node, depth)
        else:
            self.mapping(node, depth)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def opened(self, event: Any) -> YamlNode:
        tag = str(event.ctag or "")
        if tag not in KNOWN_TAGS:
            raise self.refuse(event, f"the tag {shown(tag)} isn't allowed", "Job files hold plain values only.")
        if event.anchor is not None:
            self.anchors[event.anchor] = None  # None while it is open: an alias to it inside is a cycle
        start, end = event.start_mark, event.end_mark
        return YamlNode(start.line, start.column, start.index, end.index, "", tag=tag)

    def alias(self, event: Any, depth: int) -> YamlNode:
        if event.anchor not in self.anchors:
            raise self.refuse(event, f"no anchor is named {shown(event.anchor)}")
        node = self.anchors[event.anchor]
        if node is None:
            raise self.refuse(event, f"{shown('*' + event.anchor)} stands inside of what it repeats")
        if depth + node.depth > MAX_DEPTH:
            raise self.refuse(event, f"nested more than {MAX_DEPTH} levels deep")
        self.count += node.size
        if self.count > MAX_NODES:
            raise self.refuse(event, f"written out, the aliases make more than {MAX_NODES:,} values")
        return node

    def sequence(self, node: YamlNode, depth: int) -> None:
        items: list[YamlNode] = []
        while (item := self.next())[0] != "SequenceEnd":
            items.append(self.node(*item, depth + 1))
            self.grow(node, items[-1])
        node.value = items

    def mapping(self, node: YamlNode, depth: int) -> None:
        entries: dict[str, tuple[YamlNode, YamlNode]] = {}
        merged: list[YamlNode] = []
        while (item := self.next())[0] != "MappingEnd":
            key = self.node(*item, depth + 1)
            value = self.node(*self.next(), depth + 1)
            self.grow(node, value)
            if not isinstance(key.value, str):
                raise self.refuse(item[1], "a key must be a word, not a list or a mapping")
            if key.value == "<<" and key.plain:
                merged += self.merged(item[1], value)
            elif key.value in entries:
                first = entries[key.value][0].line + 1
                raise self.refuse(item[1], f"the key {shown(key.value)} is here twice; first on line {first}")
            else:
                entries[key.value] = (key, value)
        for source in merged:
            for name, entry in source.value.items() if isinstance(source.value, dict) else ():
                entries.setdefault(name, entry)
        node.value = entries

    def merged(self, event: Any, value: YamlNode) -> list[YamlNode]:
        """What `<<:` takes over: a mapping, or a list of them."""
        sources = value.value if isinstance(value.value, list) else [value]
        if not all(isinstance(source.value, dict) for source in sources):
            raise self.refuse(event, "`<<` takes a mapping or a list of mappings")
        return sources

    def grow(self, node: YamlNode, child: YamlNode) -> None:
        node.size += child.size + 1
        node.depth = max(node.depth, child.depth + 1)


def plain(node: YamlNode, name: str, path: tuple[str, ...] = ()) -> Any:
    """The tree as dicts, lists and scalars. Texts that only look like numbers stay as written where texts belong."""
    if isinstance(node.value, dict):
        return {key: plain(value, name, (*path, key)) for key, (_, value) in node.value.items()}
    if isinstance(node.value, list):
        return [plain(item, name, (*path, "")) for item in node.value]
    if node.tag in ("!", STANDARD + "str") or not (node.plain or node.tag):
        return node.value
    tag = node.tag.removeprefix(STANDARD)
    if tag and tag != TAG_OF.get(type(scalar(node.value)).__name__, "str"):
        where = f"{name}:{node.line + 1}:{node.column + 1}"
        raise SpecError.from_problems([Problem(f"{shown(node.value)} isn't of the type that `!!{tag}` says", where)])
    return plain_word(node.value, path)


def plain_word(text: str, path: tuple[str, ...]) -> str | int | float | bool | None:
    """What a plain word at a path means. A list's item has the key "" in the path.

    A parameter keeps the text of a number that Python would print differently: scripts get `1e-4` or `010` as typed.
    """
    value = scalar(text)
    if isinstance(value, int | float) and stays_text(path):
        return text
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return text if is_number and str(value) != text and is_parameter(path) else value


def is_parameter(path: tuple[str, ...]) -> bool:
    """Whether a script gets the value here: a plain input, its default or allowed value, a value of a `choice`."""
    for declared in (path[:-1] if path[-1:] == ("default",) else path, path[:-2] if path[-2:] == ("enum", "") else ()):
        if declared[-2:-1] == ("inputs",) and is_name(declared):
            return True
    is_searched = any(part == "search_space" and not is_name(path[: place + 1]) for place, part in enumerate(path))
    return is_searched and (path[-2:] == ("values", "") or path[-3:-1] == ("values", ""))


def stays_text(path: tuple[str, ...]) -> bool:
    """Whether a number here is a text whatever its form: the version 3.10 isn't 3.1."""
    if len(path) == 2 and path[0] == "properties":
        return True
    if path[-2:-1] in (("environment_variables",), ("tags",)) and not is_name(path[:-1]):
        return True
    return path[-1:] == ("version",) and not is_name(path)


def is_name(path: tuple[str, ...]) -> bool:
    """Whether the last key is the name that a user gave to an input, an output or a step."""
    tables = ("inputs", "outputs", "search_space", "jobs")
    return len(path) > 1 and path[-2] in tables and not is_name(path[:-1])


def unquoted(text: str) -> str | None:
    """The text in a pair of quotes, None = no pair is around all of it: `"a" "b"` is a text with two pairs."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" and text[0] not in text[1:-1]:
        return text[1:-1]
    return None


def quoted(text: str) -> str:
    """The value of a `--set` from which the text comes back: in a pair of quotes, unless it has both kinds in it."""
    pair = next((pair for pair in "\"'" if pair not in text), "")
    return f"{pair}{text}{pair}"


def scalar(text: str) -> str | int | float | bool | None:
    """What a plain word means."""
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in (low := text.lower(), low.title(), low.upper()) and low in WORDS_OF_TRUTH:
        return WORDS_OF_TRUTH[low]
    if len(text) > MAX_DIGITS:
        return text
    if INTEGER.fullmatch(text):
        return int(text.replace("_", ""), 0)
    if FLOAT.fullmatch(text):
        return _decimal(text)
    if SPECIAL_FLOAT.fullmatch(text):
        return float(text.lower().replace(".", ""))
    return text


def _decimal(text: str) -> int | float:
    """Reads `010` as ten, the usual intention, not as an octal number."""
    return float(text) if any(mark in text for mark in ".eE") else int(text)
