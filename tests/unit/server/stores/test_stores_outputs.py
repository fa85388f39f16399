import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.server.home_folder.output_folder import OutputFile, OutputManifest, Winner, winners

KEPT = OutputFile(1, "a" * 64)


@pytest.mark.parametrize(
    ("given_by_nodes", "shown"),
    [
        ({}, {}),
        ({"1": ["a"], "0": ["a", "b"]}, {"a": 0, "b": 0}),
        ({"1": ["a"], "2": ["a"]}, {"a": 1}),
        ({"0": ["a"], "1": ["a/b"]}, {"a": 0}),
        ({"0": ["a/b/c"], "1": ["a", "a/b", "a/d"]}, {"a/b/c": 0, "a/d": 1}),
        ({"10": ["a"], "9": ["a"]}, {"a": 9}),
    ],
)
def test_the_lowest_node_wins_a_path(given_by_nodes, shown):
    found = winners({node: dict.fromkeys(paths, KEPT) for node, paths in given_by_nodes.items()})
    assert found == {path: Winner(node, KEPT) for path, node in shown.items()}


paths = st.lists(st.sampled_from(["a", "a/b", "a/b/c", "b", "b/c", "c"]), max_size=4)


@given(st.dictionaries(st.integers(0, 12).map(str), paths, max_size=4))
def test_shown_outputs_of_several_nodes_fit_into_one_folder(given_by_nodes):
    shown = winners({node: dict.fromkeys(paths, KEPT) for node, paths in given_by_nodes.items()})
    assert not any(one.startswith(f"{other}/") for one in shown for other in shown)
    lowest = min(map(int, given_by_nodes), default=0)
    assert all(winner.node >= lowest for winner in shown.values())


def test_newer_attempt_begins_without_earlier_outputs():
    first = OutputManifest().with_node(1, 0, {"a": KEPT}).with_node(1, 1, {"b": KEPT})
    assert winners(first.given).keys() == {"a", "b"}
    second = first.with_node(2, 1, {"c": KEPT})
    assert (second.attempt, winners(second.given).keys(), second.moving) == (2, {"c"}, 1)
