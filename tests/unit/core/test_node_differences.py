"""Nodes whose environments differ."""

import pytest

from drumbeat.core.diagnosis.node_differences import difference
from drumbeat.model.python_fingerprint import Fingerprint, read
from drumbeat.model.roster import Member
from tests.support.messages import Messages

pytestmark = pytest.mark.feature("E3")


def gang(*prints: Fingerprint | None) -> list[Member]:
    return [
        Member(node, "abc"[node], f"10.0.0.{node}", "/r", "/c", environment=str(one or ""))
        for node, one in enumerate(prints)
    ]


def made(digest: str, python: str = "3.11.7", *, has_more: bool = False, **versions: str) -> Fingerprint:
    return Fingerprint(python, digest, versions, has_more)


@pytest.mark.parametrize(
    "one", [made("a"), made("a", torch="2.13.0", numpy="2.1.0"), made("b", torch="2.13.0+cpu", has_more=True)]
)
def test_fingerprint_survives_being_written_and_read(one: Fingerprint):
    assert read(str(one)) == one


@pytest.mark.parametrize("prints", [(), (None, None), (made("a"), made("a")), (made("a"), None, made("a"))])
def test_nodes_that_are_alike_or_have_no_python_are_a_gang(prints: tuple[Fingerprint | None, ...]):
    assert difference(gang(*prints)) == ""


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (made("a", "3.11.7"), made("b", "3.12.1"), "Python 3.11.7 on node 0 (a), 3.12.1 on node 2 (c)"),
        (made("a", numpy="2.1"), made("b", numpy="2.2"), "numpy 2.1 on node 0 (a), 2.2 on node 2 (c)"),
        (made("a", x="1"), made("b"), "x 1 on node 0 (a), not on node 2 (c)"),
        (
            made("a", x="1", has_more=True), made("b", y="1", has_more=True),
            "node 0 (a) and node 2 (c) don't have the same packages (Python 3.11.7 on both)",
        ),
        (made("a", x="1", y="2", has_more=True), made("b", x="2", has_more=True), "x 1 on node 0 (a), 2 on node 2 (c)"),
        (
            made("a", **{f"p{n}": "1" for n in range(7)}), made("b"),
            "; ".join(f"p{n} 1 on node 0 (a), not on node 2 (c)" for n in range(5)) + "; and 2 more",
        ),
    ],
)  # fmt: skip
def test_first_node_that_differs_is_named_with_its_value(
    one: Fingerprint, other: Fingerprint, told: str, messages: Messages
):
    messages.check(difference(gang(one, one, other)))
