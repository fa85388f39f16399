"""Parts of sentences."""

from __future__ import annotations

import pytest

from drumbeat.model.plurals import list_first, name_some


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b"], "a and b"),
        (["a", "b", "c"], "a, b and c"),
        (["a", "b", "c", "d", "e"], "a, b, c and 2 more"),
    ],
)
def test_three_names_are_told_and_how_many_more_there_are(names: list[str], sentence: str):
    assert name_some(names) == sentence


def test_items_with_commas_of_their_own_are_parted_by_semicolons():
    assert list_first(["x 1, y 2", "z"], 2, "; ") == "x 1, y 2; z"
    assert list_first(["x 1, y 2", "z", "w"], 1, "; ") == "x 1, y 2; and 2 more"
