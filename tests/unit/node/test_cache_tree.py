"""Listings that no folder can look like are refused."""

from __future__ import annotations

import pytest

from drumbeat.model.errors import RefusedError
from drumbeat.model.input_listing import ListedFile, Listing, listing
from drumbeat.node.inputs.cache import link_tree
from drumbeat.node.inputs.cache.partial_file import PIECE, piece_at, piece_count

pytestmark = pytest.mark.feature("X5")


def of(*paths: str) -> Listing:
    return listing([ListedFile(path, 1, path) for path in paths])


@pytest.mark.parametrize("path", ["../x", "/x", "a//b", "a/", "a/./b", "", "a\0b"])
def test_a_path_that_leaves_its_folder_is_refused(path: str):
    with pytest.raises(RefusedError, match="which can't be a path on a node"):
        link_tree.check("train", of("good", path))


def test_a_file_that_is_a_folder_too_is_refused():
    with pytest.raises(RefusedError, match="input train has a file named 'a/b', which is a folder, too"):
        link_tree.check("train", of("a/b", "a/b/c"))


@pytest.mark.parametrize("path", ["x" * 256, "/".join(["x" * 200] * 16)])
def test_a_name_too_long_for_a_disk_is_refused(path: str):
    with pytest.raises(RefusedError, match="too long for a node's disk"):
        link_tree.check("train", of(path))


def test_a_path_that_comes_twice_is_refused():
    with pytest.raises(RefusedError, match="a path comes twice"):
        link_tree.check("train", of("a", "a"))


def test_others_are_taken():
    link_tree.check("train", of("a/b", "a/c", "b", "…/ü", "a.b", "..."))
    link_tree.check("train", of())


def test_pieces_cover_a_file_without_gap():
    for size in (0, 1, PIECE - 1, PIECE, PIECE + 1, 5 * PIECE):
        found = [piece_at(size, number) for number in range(piece_count(size))]
        assert found == [(at, min(PIECE, size - at)) for at in range(0, size, PIECE)]
        assert sum(length for _, length in found) == size
