"""Which version a name without one means."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from drumbeat.model.versions import choose_version, newest_of_each

pytestmark = pytest.mark.feature("J8")


@dataclass(frozen=True)
class Version:
    """A version, as rows and views have it."""

    name: str
    version: str
    is_archived: bool = False


A3, A2, A1 = Version("a", "3", is_archived=True), Version("a", "2"), Version("a", "1")
B1 = Version("b", "1", is_archived=True)


@pytest.mark.parametrize(
    ("versions", "asked", "chosen"),
    [
        ([A3, A2, A1], "", A2),
        ([A3, A2, A1], "3", A3),
        ([A3, A2, A1], "1", A1),
        ([A3, A2, A1], "7", None),
        ([B1], "", B1),
        ([], "", None),
    ],
)
def test_name_without_a_version_means_the_newest_that_is_not_archived(versions, asked, chosen):
    assert choose_version(versions, asked) is chosen


def test_newest_of_each_name_is_archived_only_where_all_of_it_is():
    assert newest_of_each([B1, A3, A2, A1]) == [B1, A2]
