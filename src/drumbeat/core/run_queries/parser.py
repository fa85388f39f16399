"""Parses filters, orders and lists of columns: MLflow's grammar, with more fields and comparators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from drumbeat.core.run_queries.conditions import (
    COMPARATORS,
    Condition,
    Operand,
    condition,
)
from drumbeat.core.run_queries.fields import ALIASES, ATTRIBUTES, POINTS, PREFIXES, Field, Point
from drumbeat.core.run_queries.tokens import QueryText, Token
from drumbeat.jobfile.reading.error_messages import nearest_name
from drumbeat.model.errors import SpecError

MAX_CONDITIONS, MAX_FIELDS = 50, 100

FIELDS = (
    "A field is metric.NAME, min(metric.NAME), max(metric.NAME), param.NAME, input.NAME, tag.NAME, "
    f"or one of {', '.join(ATTRIBUTES)}."
)
QUOTES = 'A name with spaces or signs is put in quotes: metric."my loss".'


@dataclass(frozen=True)
class SortKey:
    """A field by which runs are sorted."""

    field: Field
    is_ascending: bool = True

    def __str__(self) -> str:
        return f"{self.field} {'asc' if self.is_ascending else 'desc'}"


def parse_filter(text: str, parameter: str = "where") -> tuple[Condition, ...]:
    """Returns the conditions of a filter, all of which must hold; () for an empty one. Raises SpecError."""
    parser = _Parser(QueryText(text, parameter))
    return tuple(parser.conditions())


def parse_sort(text: str, parameter: str = "sort") -> tuple[SortKey, ...]:
    """Returns the keys of an order like `metric.acc desc, name`. Raises SpecError."""
    parser = _Parser(QueryText(text, parameter))
    return tuple(parser.sort_keys())


def parse_fields(text: str, parameter: str = "columns") -> tuple[Field, ...]:
    """Returns the fields of a list with commas, each once. Raises SpecError."""
    parser = _Parser(QueryText(text, parameter))
    return tuple(dict.fromkeys(parser.fields()))


class _Parser:
    """Reads the tokens of one text from left to right."""

    def __init__(self, source: QueryText) -> None:
        self._source, self._tokens, self._n = source, source.tokens(), 0
        self._descends = False
        """Whether the last field of an order is followed by DESC."""

    def conditions(self) -> Iterator[Condition]:
        if self._is_over():
            return
        for number in range(MAX_CONDITIONS):
            yield self._condition()
            if self._is_over():
                return
            if self._now.is_word("OR"):
                raise self._refusal("`OR` isn't part of filters", "All conditions must hold: join them with AND.")
            if not self._take_word("AND"):
                raise self._refusal(f"{self._now} follows condition {number + 1}", "Join conditions with AND.")
        raise self._refusal(f"a filter has at most {MAX_CONDITIONS} conditions", "Leave some out.")

    def sort_keys(self) -> Iterator[SortKey]:
        for field in self.fields(takes_directions=True):
            yield SortKey(field, is_ascending=not self._descends)

    def fields(self, *, takes_directions: bool = False) -> Iterator[Field]:
        if self._is_over():
            return
        for _ in range(MAX_FIELDS):
            field = self._field()
            self._descends = takes_directions and not self._take_word("ASC") and self._take_word("DESC")
            yield field
            if self._is_over():
                return
            if not self._take_mark(","):
                allowed = "ASC, DESC, or a comma" if takes_directions else "a comma"
                raise self._refusal(f"{self._now} follows {field}", f"Expected {allowed}. {QUOTES}")
        raise self._refusal(f"{self._source.parameter} has at most {MAX_FIELDS} fields", "Leave some out.")

    def _condition(self) -> Condition:
        at = self._now.at
        field = self._field()
        comparator = self._comparator(field)
        values: tuple[Operand, ...] = ()
        value_at = self._now.at
        if comparator in ("IN", "NOT IN"):
            values = tuple(self._list())
        elif comparator not in ("IS NULL", "IS NOT NULL"):
            values = (self._literal(),)
        try:
            return condition(field, comparator, values)
        except SpecError as error:
            raise self._source.refuse(value_at if values else at, error.what, error.fix) from None

    def _field(self) -> Field:
        token = self._now
        for point in POINTS:
            if token.is_word(point.upper()) and self._tokens[self._n + 1].text == "(":
                return self._point_of_curve(point)
        if token.kind not in ("word", "quoted"):
            raise self._refusal(f"{token} stands where a field is expected", FIELDS)
        self._n += 1
        if token.kind == "quoted":
            return self._attribute(token, token.text)
        prefix, dot, key = token.text.partition(".")
        if not dot:
            return self._attribute(token, token.text)
        kind = PREFIXES.get(prefix)
        if kind is None:
            close = nearest_name(prefix, PREFIXES)
            fix = f"Did you mean `{close}.`? {FIELDS}" if close else FIELDS
            raise self._source.refuse(token.at, f"no field begins with `{prefix[:40]}.`", fix)
        if not key and self._now.kind == "quoted" and self._now.is_joined:
            key = self._now.text
            self._n += 1
        if not key:
            raise self._source.refuse(token.end, f"no name follows `{prefix}.`", FIELDS)
        return self._attribute(token, key) if kind == "attribute" else Field(kind, key)

    def _point_of_curve(self, point: Point) -> Field:
        """Reads `min(metric.loss)`."""
        first = self._now
        self._n += 2
        inner, at = self._field(), self._now.at
        if inner.kind != "metric" or inner.point != "last":
            raise self._source.refuse(first.at, f"{inner} has no {point}", f"Only metrics have: {point}(metric.loss).")
        if not self._take_mark(")"):
            raise self._source.refuse(at, f"the bracket of {point}( isn't closed", f"Write {point}({inner}).")
        return Field("metric", inner.key, point)

    def _attribute(self, token: Token, name: str) -> Field:
        key = ALIASES.get(name, name)
        if key in ATTRIBUTES:
            return Field("attribute", key)
        close = nearest_name(name, [*ATTRIBUTES, *ALIASES])
        fix = f"Did you mean `{close}`? {FIELDS}" if close else FIELDS
        raise self._source.refuse(token.at, f"runs have no field `{name[:40]}`", fix)

    def _comparator(self, field: Field) -> str:
        token = self._now
        if token.kind == "sign":
            self._n += 1
            return "=" if token.text == "==" else token.text
        for words in (("NOT", "IN"), ("IN",), ("LIKE",), ("ILIKE",), ("IS", "NOT", "NULL"), ("IS", "NULL")):
            following = self._tokens[self._n : self._n + len(words)]
            if len(following) == len(words) and all(
                one.is_word(word) for one, word in zip(following, words, strict=True)
            ):
                self._n += len(words)
                return " ".join(words)
        raise self._refusal(f"{token} stands where {field} is to be compared", f"Use one of {', '.join(COMPARATORS)}.")

    def _literal(self) -> Operand:
        token = self._now
        if token.kind not in ("word", "quoted") or token.is_word("AND"):
            what = f"{token} stands where a value is expected"
            raise self._refusal(what, "A value is a number, a word, or a text in quotes.")
        self._n += 1
        return Operand(token.text, is_quoted=token.kind == "quoted")

    def _list(self) -> Iterator[Operand]:
        if not self._take_mark("("):
            raise self._refusal(f"{self._now} follows IN", "Write the values in brackets: state in (failed, canceled).")
        while True:
            yield self._literal()
            if self._take_mark(")"):
                return
            if not self._take_mark(","):
                raise self._refusal(
                    f"{self._now} stands in a list", "Separate values with commas; close it with a bracket."
                )

    @property
    def _now(self) -> Token:
        return self._tokens[self._n]

    def _is_over(self) -> bool:
        return self._now.kind == "end"

    def _take_word(self, word: str) -> bool:
        is_there = self._now.is_word(word)
        self._n += is_there
        return is_there

    def _take_mark(self, mark: str) -> bool:
        is_there = self._now.kind == "mark" and self._now.text == mark
        self._n += is_there
        return is_there

    def _refusal(self, what: str, fix: str) -> SpecError:
        return self._source.refuse(self._now.at, what, fix)
