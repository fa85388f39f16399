"""The query language of runs: what it takes, what it means, what its refusals say; MLflow's filters are part of it."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumbeat.core.run_queries.fields import Cell, Field
from drumbeat.core.run_queries.parser import parse_fields, parse_filter, parse_sort
from drumbeat.core.run_queries.run_table import grouped, matching, sorted_rows, spread_of
from drumbeat.model.errors import SpecError
from drumbeat.server.metrics.mlflow.filter_parsing import run_comparisons, run_orders

pytestmark = pytest.mark.feature("M16")

CASES: dict[str, list[dict[str, Any]]] = json.loads(Path(__file__).with_name("run_orders.json").read_text("utf-8"))

Row = dict[str, Cell]

RUNS: dict[str, Row] = {
    "a": {"state": "completed", "metric.val/acc": 0.9, "input.lr": 0.01, "tag.owner": "ada", "duration": 5400.0},
    "b": {"state": "failed", "metric.val/acc": 0.5, "input.lr": "0.1", "error": "rank 2: KeyError: 1000"},
    "c": {"state": "failed", "metric.val/acc": math.nan, "param.opt": "sgd", "duration": 60.0},
    "d": {"state": "running", "min(metric.val/acc)": 0.1, "input.data": "azureml:mnist:1", "submitted": 1.7e12},
}


def value_of(row: Row, field: Field) -> Cell:
    return row.get(str(field))


def chosen(where: str) -> str:
    rows = matching(RUNS.values(), parse_filter(where), value_of)
    return "".join(name for name, row in RUNS.items() if row in rows)


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ("", "abcd"),
        ("metric.val/acc > 0.6", "a"),
        ("metrics.val/acc>=.5", "ab"),
        ('metric."val/acc" != 0.9', "bc"),
        ("metric.val/acc = nan", "c"),
        ("metric.val/acc IS NULL", "d"),
        ("min(metric.val/acc) < 1", "d"),
        ("input.lr = 0.1", "b"),
        ("input.lr >= 0.01", "ab"),
        ("input.lr = '0.10'", ""),
        ("input.lr is not null and state = failed", "b"),
        ("state in (failed, running)", "bcd"),
        ("state NOT IN ('failed')", "ad"),
        ("error ~ KeyError", "b"),
        ("error ~ 'rank [0-9]+: (Key|Value)Error'", "b"),
        ("error ~ '(?i)keyerror'", "b"),
        ("error LIKE 'rank%KeyError%'", "b"),
        ("error like '%keyerror%'", ""),
        ("error ILIKE '%keyerror%'", "b"),
        ("input.data like 'azureml:m_ist:%'", "d"),
        ("tag.owner == ada and duration > 1h", "a"),
        ("duration <= 1m30s", "c"),
        ("params.opt = 'sgd'", "c"),
        ("submitted > 2023-11-14", "d"),
        ("submitted > 2023-11-15T00:00", ""),
        ("start_time > 1", ""),
    ],
)
def test_filter_chooses_the_runs_that_meet_all_conditions(where: str, names: str) -> None:
    assert chosen(where) == names


@pytest.mark.parametrize(
    ("where", "at", "what", "fix"),
    [
        ("metrc.loss < 1", 1, "no field begins with `metrc.`", "Did you mean `metric.`?"),
        ("stat = failed", 1, "runs have no field `stat`", "Did you mean `state`?"),
        ("metric.loss <", 14, "the end stands where a value is expected", "A value is a number"),
        ("metric.loss 3", 13, "`3` stands where metric.loss is to be compared", "Use one of =, !=, <"),
        ("metric.loss < high", 15, "'high' is no number", "Write a number."),
        ("metric.loss ~ 1", 15, "metric.loss is no text", "Use =, !="),
        ("state < 3", 9, "state is a text", "Use =, !=, ~"),
        ("state = faild", 9, "'faild' is no state", "Did you mean `failed`?"),
        ("state = failed or state = running", 16, "`OR` isn't part of filters", "AND"),
        ("state = failed state = running", 16, "`state` follows condition 1", "AND"),
        ("state in failed", 10, "`failed` follows IN", "brackets"),
        ("state in (failed", 17, "the end stands in a list", "bracket"),
        ("error ~ '('", 9, "'(' is no regular expression: unclosed group", "RE2"),
        ("error = 'x", 9, "the text that begins with ' has no end", "quote"),
        ("error ! x", 7, "`!` stands alone", "!="),
        ("min(state) < 1", 1, "state has no min", "Only metrics"),
        ("min(metric.loss < 1", 17, "isn't closed", "min(metric.loss)"),
        ("metric. < 1", 8, "no name follows `metric.`", "A field is"),
        ("duration > long", 12, "'long' is no number", "1h30m"),
        ("submitted > yesterday", 13, "'yesterday' is no time", "2026-11-28"),
        (" and ".join(["state = failed"] * 51), 951, "at most 50 conditions", "Leave some out"),
    ],
)
def test_refusal_names_the_place_the_fault_and_what_is_allowed(where: str, at: int, what: str, fix: str) -> None:
    with pytest.raises(SpecError) as refusal:
        parse_filter(where)
    assert refusal.value.where == f"where:{at}"
    assert what in refusal.value.what
    assert fix in refusal.value.fix


@pytest.mark.parametrize("fault", ["x" * 4001, "error ~ " + "a" * 1001])
def test_texts_and_patterns_without_end_are_refused(fault: str) -> None:
    with pytest.raises(SpecError, match=r"4,000|1,000"):
        parse_filter(fault)


def test_pattern_that_would_never_end_with_backtracking_is_quick() -> None:
    (condition,) = parse_filter("error ~ '(a|a)*(a*)*b$'")
    assert not condition.is_met("a" * 20_000)


PIECES = ("metric", ".", "loss", "state", "min(", ")", "<", ">=", "!", "~", "'", '"', "`", " and ", " in ", "(", ",")
OTHERS = (" not ", "is null", "0.5", "nan", "input.lr", "\x00", "é", "[", "*", "%")


@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES + OTHERS), max_size=14).map("".join)))
def test_any_text_is_parsed_or_refused_with_a_place(text: str) -> None:
    for parse, parameter in ((parse_filter, "where"), (parse_sort, "sort"), (parse_fields, "columns")):
        refusal = refusal_of(parse, text)
        if refusal is not None:
            named, _, at = refusal.where.partition(":")
            assert (named, bool(refusal.fix)) == (parameter, True)
            assert 1 <= int(at) <= len(text) + 1


def refusal_of(parse: Callable[[str], object], text: str) -> SpecError | None:
    try:
        parse(text)
    except SpecError as refusal:
        return refusal
    return None


NAMES = st.sampled_from(["loss", "a b", "val/acc", "x-y", "min"])
QUOTED = NAMES.map(lambda name: f"`{name}`")
WORDS = st.text(st.sampled_from("abz %_019."), max_size=8).map(lambda text: f"'{text}'")
NUMERIC = st.tuples(st.sampled_from([">", ">=", "<", "<=", "=", "!="]), st.sampled_from(["1", "0.5", "-2", "1e3"]))
TEXTUAL = st.tuples(st.sampled_from(["=", "!=", "LIKE", "ILIKE"]), WORDS)


def conditions() -> st.SearchStrategy[str]:
    metric = st.tuples(st.sampled_from(["metric", "metrics"]), QUOTED, NUMERIC)
    param = st.tuples(st.sampled_from(["param", "params", "parameter", "tag", "tags"]), QUOTED, TEXTUAL)
    attribute = st.tuples(
        st.sampled_from(["attributes", "attr", "run"]), st.sampled_from(["run_name", "user_id"]), TEXTUAL
    )
    time = st.tuples(st.just("attribute"), st.sampled_from(["start_time", "end_time", "created"]), NUMERIC)
    return st.one_of(metric, param, attribute, time).map(lambda one: f"{one[0]}.{one[1]} {' '.join(one[2])}")


@settings(deadline=None)  # The first one imports MLflow.
@given(st.lists(conditions(), min_size=1, max_size=4))
def test_filters_of_mlflow_mean_the_same_here(written: list[str]) -> None:
    where = " AND ".join(written)
    theirs = run_comparisons(where)
    ours = parse_filter(where)
    kinds = {"param": "parameter"}
    aliases = {"display_name": "run_name", "user": "user_id", "started": "start_time", "ended": "end_time"}
    for one, other in zip(ours, theirs, strict=True):
        key = aliases.get(one.field.key, one.field.key) if one.field.kind == "attribute" else one.field.key
        assert (kinds.get(one.field.kind, one.field.kind), key) == (other["type"], other["key"])
        assert one.comparator == other["comparator"].upper()
        value: Any = other["value"]
        assert one.values[0].text == value or float(one.values[0].text) == float(value)


def test_orders_of_mlflow_mean_the_same_here() -> None:
    texts = ["metrics.`val/acc` DESC", "params.lr", "tags.`a b` ASC", "attributes.start_time DESC"]
    ours = parse_sort(", ".join(texts))
    assert [(one.field.key, one.is_ascending) for one in ours] == [
        ("started" if key == "start_time" else key, is_ascending) for _, key, is_ascending in run_orders(texts)
    ]


def cell_of(value: Any) -> Cell:
    """Returns a value of the cases as the server has it: numbers are floats, NaN is one of a metric."""
    return math.nan if value == "NaN" else float(value) if isinstance(value, int | float) else value


@pytest.mark.parametrize("case", CASES["orders"])
@pytest.mark.parametrize("direction", ["", " desc"])
def test_order_has_numbers_before_texts_and_runs_without_a_value_last(
    case: dict[str, list[Any]], direction: str
) -> None:
    rows: list[Row] = [{"input.lr": cell_of(value)} for value in case["values"]]
    ordered = sorted_rows(rows, parse_sort(f"input.lr{direction}"), value_of)
    up = [cell_of(value) for value in case["up"]]
    assert [row["input.lr"] for row in ordered][: len(up)] == (up[::-1] if direction else up)
    assert [str(row["input.lr"]) for row in ordered][len(up) :] == [str(cell_of(one)) for one in case["without"]]


def test_second_column_decides_between_runs_that_are_equal_in_the_first() -> None:
    rows: list[Row] = [
        {"state": state, "nodes": nodes} for state, nodes in (("b", 1.0), ("a", 2.0), ("b", 3.0), ("a", 2.0))
    ]
    ordered = sorted_rows(rows, parse_sort("state, nodes desc"), value_of)
    assert [(row["state"], row["nodes"]) for row in ordered] == [("a", 2.0), ("a", 2.0), ("b", 3.0), ("b", 1.0)]
    assert ordered[0] is rows[1]


def test_groups_have_their_members_in_order_and_mean_with_spread() -> None:
    rows: list[Row] = [
        {"input.lr": lr, "metric.acc": acc} for lr, acc in ((0.1, 1.0), ("0.01", 4.0), ("0.1", 3.0), (None, 5.0))
    ]
    groups = grouped(rows, parse_fields("input.lr", "group_by"), value_of)
    assert [(values, [rows.index(row) for row in members]) for values, members in groups] == [
        (("0.01",), [1]), ((0.1,), [0, 2]), ((None,), [3]),
    ]  # fmt: skip
    spread = spread_of([row["metric.acc"] for row in groups[1][1]])
    assert (spread.numbers, spread.mean, spread.spread, spread.low, spread.high) == (2, 2.0, math.sqrt(2), 1.0, 3.0)
    assert spread_of(["sgd", "sgd"]).common == "sgd"
    assert spread_of(["sgd", None]) == spread_of([math.nan, None])


def test_groups_and_spreads_are_those_of_the_page() -> None:
    for case in CASES["groups"]:
        rows: list[Row] = [{"input.lr": cell_of(value)} for value in case["values"]]
        groups = grouped(rows, parse_fields("input.lr", "group_by"), value_of)
        assert [[values[0], len(members)] for values, members in groups] == case["groups"]
    for case in CASES["spreads"]:
        spread = spread_of([cell_of(value) for value in case["values"]])
        assert (spread.mean, spread.spread) == (case["mean"], case["deviation"])


@pytest.mark.parametrize("text", ["state", "input.lr", "min(metric.val/acc)", 'tag."a b"', 'param."x""y"', "tag.Ä"])
def test_field_is_written_as_it_is_read(text: str) -> None:
    assert str(parse_fields(text)[0]) == text
