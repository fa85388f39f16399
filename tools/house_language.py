"""Words that the code of drumbeat doesn't use: a check of names, docstrings, comments and messages.

`python -m tools.house_language [ROOM…]` lists every breach with its place; `--counts` gives a table by word. The rules
are those of CONTRIBUTING.md ("Language"); tests/unit/test_house_language.py holds them.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
NAMES = frozenset({"told", "nobody", "whoever", "somebody", "anybody", "found", "there", "known", "having", "said"})
"""Participles and people that are no names for values: a name says what the value is."""
PROSE = re.compile(
    r"\b(whoever|nobody|somebody|anew|how manieth|gone on with|mend(?:s|ed|ing)?|can't be meant|so long as)\b",
    re.IGNORECASE,
)
"""Archaisms, riddles, and people where a part of the system is meant."""


@dataclass(frozen=True)
class Breach:
    """One use of a word that the house doesn't use."""

    path: str
    line: int
    word: str
    kind: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind} {self.word!r}"


def breaches_of(path: Path, root: Path = ROOT) -> Iterator[Breach]:
    """Every breach in one Python file."""
    text = path.read_text()
    name = str(path.relative_to(root))
    tree = ast.parse(text)
    for node in ast.walk(tree):
        yield from (Breach(name, line, word, kind) for line, word, kind in _names_in(node))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in {tokenize.COMMENT, tokenize.STRING, *FSTRING}:
            for match in PROSE.finditer(token.string):
                line = token.start[0] + token.string[: match.start()].count("\n")
                yield Breach(name, line, match[0].lower(), "prose")


FSTRING = {value for key, value in vars(tokenize).items() if key == "FSTRING_MIDDLE"}


def _names_in(node: ast.AST) -> Iterator[tuple[int, str, str]]:
    match node:
        case ast.Name(id=word, ctx=ast.Store()) | ast.arg(arg=word):
            if word.strip("_") in NAMES:
                yield node.lineno, word, "name"
            if re.match(r"_?(MOST|LEAST)_", word):
                yield node.lineno, word, "constant"
        case ast.ClassDef(name=word):
            if re.fullmatch(r"_?[A-Z]\w*ing", word) and not word.endswith(NOUNS):
                yield node.lineno, word, "class"
        case ast.FunctionDef(name=word) | ast.AsyncFunctionDef(name=word):
            if word.strip("_") in NAMES:
                yield node.lineno, word, "function"
        case _:
            pass


NOUNS = (
    "Setting", "String", "Sampling", "Listing", "Mapping", "Binding", "Building", "Reading", "Ring", "Scaling", "Thing",
    "Warning",
)  # fmt: skip
"""Nouns that end as participles do."""


def files(*rooms: str) -> list[Path]:
    """The Python files of the package, or of the rooms named."""
    package = ROOT / "src" / "drumbeat"
    return sorted(path for room in rooms or (".",) for path in (package / room).rglob("*.py"))


def main(*arguments: str) -> None:
    """Prints the breaches of the rooms named, else of all."""
    listing = [
        each for path in files(*(one for one in arguments if not one.startswith("-"))) for each in breaches_of(path)
    ]
    if "--counts" in arguments:
        for (kind, word), count in Counter((each.kind, each.word) for each in listing).most_common():
            print(f"{count:5}  {kind:9} {word}")
    else:
        print(*listing, sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
