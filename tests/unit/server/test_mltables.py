"""Which files an MLTable names, and where they are shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from drumbeat.jobfile.data.datastores import FolderDatastore
from drumbeat.model.errors import DrumbeatError, RefusedError, SpecError
from drumbeat.model.input_listing import Listing, Origin
from drumbeat.server.data.mltables import evaluate
from drumbeat.server.data.stores.store_access import StoreAccess

pytestmark = pytest.mark.feature("D2")

TABLE = "azureml://datastores/share/paths/t"
Evaluate = Callable[[str], Listing]


@pytest.fixture
def found(tmp_path: Path) -> Evaluate:
    """What a table with these lines evaluates to, beside and around which some files lie."""
    for path in ("t/a.csv", "t/own/b.csv", "t/own/c.txt", "pics/1.jpg", "pics/deep/2.jpg"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    data = StoreAccess(lambda: {name: FolderDatastore(name=name, path=str(tmp_path)) for name in ("share", "other")})

    def ask(table: str) -> Listing:
        (tmp_path / "t" / "MLTable").write_text(table)
        return evaluate(data, TABLE, data.listing(TABLE, is_file=False))

    return ask


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("file: ./a.csv", ["a.csv"]),
        ("folder: ./", ["a.csv", "own/b.csv", "own/c.txt"]),
        ("folder: own", ["own/b.csv", "own/c.txt"]),
        ("pattern: ./own/*.csv", ["own/b.csv"]),
        ("file: azureml://datastores/other/paths/pics/1.jpg", ["other/pics/1.jpg"]),
        ("folder: azureml://datastores/other/paths/pics", ["other/pics/1.jpg", "other/pics/deep/2.jpg"]),
        ("pattern: azureml://datastores/other/paths/pics/*/2.jpg", ["other/pics/deep/2.jpg"]),
        ("pattern: ./*.csv", ["a.csv"]),
        ("pattern: ./**/*.csv", ["a.csv", "own/b.csv"]),
        ("pattern: ./**/own/?.csv", ["own/b.csv"]),
        ("pattern: ./own/**", ["own/b.csv", "own/c.txt"]),
        ("pattern: azureml://datastores/other/paths/pics/*.jpg", ["other/pics/1.jpg"]),
        ("pattern: azureml://datastores/other/paths/pics/**/*.jpg", ["other/pics/1.jpg", "other/pics/deep/2.jpg"]),
        ("pattern: azureml://datastores/other/paths/**/deep/*", ["other/pics/deep/2.jpg"]),
    ],
)
def test_every_kind_of_path_is_listed(found: Evaluate, path: str, shown: list[str]):
    assert [file.path for file in found(f"paths:\n- {path}\n").files] == shown


def test_several_paths_together_know_where_each_file_lies(found: Evaluate):
    pics = "azureml://datastores/other/paths/pics"
    listing = found(f"paths:\n- file: ./a.csv\n- folder: ./\n- folder: {pics}\n- file: {pics}/1.jpg\n")
    shown = ["a.csv", "other/pics/1.jpg", "other/pics/deep/2.jpg", "own/b.csv", "own/c.txt"]
    assert [file.path for file in listing.files] == shown
    assert listing.origins == {
        "other/pics/1.jpg": Origin(f"{pics}/1.jpg", "1.jpg", alone=True),
        "other/pics/deep/2.jpg": Origin(pics, "deep/2.jpg"),
    }


@pytest.mark.parametrize("step", ["take: 5", "skip: 1", "filter: 'col > 1'", "take_random_sample: {probability: 0.5}"])
def test_transformation_that_selects_files_is_refused_and_of_rows_ignored(found: Evaluate, step: str):
    with pytest.raises(RefusedError, match="selects files"):
        found(f"paths: [{{file: ./a.csv}}]\ntransformations:\n- {step}\n- read_delimited: {{}}\n")
    assert found(f"paths: [{{file: ./a.csv}}]\ntransformations:\n- read_delimited: {{}}\n- {step}\n").files


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("paths: [{file: ./nope}]", "file ./nope doesn't exist"),
        ("paths: [{file: ./MLTable}]", "doesn't exist"),
        ("paths: [{folder: azureml://datastores/nope/paths/x}]", "can't be read"),
        ("paths: []", "no list `paths`"),
        ("[]", "no list `paths`"),
        ("paths: [{file: a, folder: b}]", "each of `paths` has one of"),
    ],
)
def test_invalid_table_is_refused(found: Evaluate, table: str, said: str):
    with pytest.raises((SpecError, DrumbeatError), match=said):
        found(table)


@pytest.mark.parametrize(
    ("table", "place"),
    [
        ("type: mltable\npaths:\n- file: ./a.csv\n- file: ./nope\n", "4:3"),
        ("paths:\n- folder: azureml://datastores/nope/paths/x", "2:3"),
        ("paths: [{file: ./a.csv}]\ntransformations:\n- take: 5\n", "3:3"),
        ("paths:\n- file: a\n  folder: b\n", "2:3"),
        ("paths: [\n", "2:1"),
    ],
)
def test_invalid_table_is_refused_with_its_line(found: Evaluate, table: str, place: str):
    with pytest.raises(DrumbeatError) as raised:
        found(table)
    assert raised.value.where == f"{TABLE}/MLTable:{place}"


@pytest.mark.parametrize(
    ("table", "what", "fix"),
    [
        ("", "the file is empty", "Write at least `paths: [{file: ./data.csv}]`."),
        ("# nothing yet\n", "the file is empty", "Write at least `paths: [{file: ./data.csv}]`."),
        ("---\n", "it has no list `paths`", "Write `paths: [{file: ./data.csv}]`."),
        ("paths:\n", "it has no list `paths`", "Write `paths: [{file: ./data.csv}]`."),
    ],
    ids=["empty", "comment", "document", "key"],
)
def test_empty_table_is_refused_with_what_a_table_needs(found: Evaluate, table: str, what: str, fix: str):
    with pytest.raises(SpecError) as raised:
        found(table)
    assert (raised.value.what, raised.value.fix) == (what, fix)
