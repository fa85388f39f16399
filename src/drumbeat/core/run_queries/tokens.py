"""Splits the text of a query into words, texts in quotes, comparators and punctuation, each with its place."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from drumbeat.model.errors import SpecError

MAX_TEXT = 4000
"""Maximum length of a filter, an order or a list of columns."""

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
    | (?P<sign><=|>=|!=|==|=|<|>|~)
    | (?P<mark>[(),])
    | (?P<quoted>'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`)
    | (?P<word>[^\s"'`()<>=!~,]+)
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Token:
    """A piece of a query. at: its first character, counted from 0. text: of a quoted one what stands in the quotes."""

    kind: Literal["word", "quoted", "sign", "mark", "end"]
    text: str
    at: int
    end: int
    is_joined: bool = False
    """Whether it follows its predecessor without a space."""

    def is_word(self, *words: str) -> bool:
        """Whether it is one of these words, in any case of letters."""
        return self.kind == "word" and self.text.upper() in words

    def __str__(self) -> str:
        """The token as messages show it."""
        if self.kind == "end":
            return "the end"
        return f"'{self.text[:40]}'" if self.kind == "quoted" else f"`{self.text[:40]}`"


@dataclass(frozen=True)
class QueryText:
    """The text of a query, and the name of the parameter that it is."""

    text: str
    parameter: str

    def refuse(self, at: int, what: str, fix: str) -> SpecError:
        """Returns the error about a place of the text. `where` is the parameter and the place, counted from 1."""
        start, end = max(0, at - 20), at + 30
        near = f"{'…' if start else ''}{self.text[start:at]}▸{self.text[at:end]}{'…' if end < len(self.text) else ''}"
        return SpecError(f"{what}, at character {at + 1} of `{near}`", where=f"{self.parameter}:{at + 1}", fix=fix)

    def tokens(self) -> list[Token]:
        """Returns the tokens, the last of which is the end. Raises SpecError."""
        if len(self.text) > MAX_TEXT:
            what = f"{self.parameter} has {len(self.text):,} characters, and may have {MAX_TEXT:,}"
            raise SpecError(what, where=self.parameter, fix="Shorten it.")
        tokens: list[Token] = []
        at, is_joined = 0, False
        while at < len(self.text):
            match = _TOKEN.match(self.text, at)
            if match is None:
                raise self._unreadable(at)
            kind, text = match.lastgroup, match[0]
            if kind in ("word", "sign", "mark"):
                tokens.append(Token(kind, text, at, match.end(), is_joined))
            elif kind == "quoted":
                quote = text[0]
                tokens.append(Token("quoted", text[1:-1].replace(quote * 2, quote), at, match.end(), is_joined))
            is_joined, at = kind != "space", match.end()
        return [*tokens, Token("end", "", len(self.text), len(self.text))]

    def _unreadable(self, at: int) -> SpecError:
        if self.text[at] == "!":
            return self.refuse(at, "`!` stands alone", "Write `!=`.")
        return self.refuse(at, f"the text that begins with {self.text[at]} has no end", "Close its quote.")
