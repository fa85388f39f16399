"""The house's language (tools/house_language.py): src has no word that CONTRIBUTING.md refuses."""

from pathlib import Path

from tools.house_language import Breach, breaches_of, files


def test_source_has_no_refused_words():
    listing = [breach for path in files() for breach in breaches_of(path)]
    assert not listing, "\n".join(map(str, listing))


def test_each_kind_of_breach_is_seen(tmp_path: Path):
    file = tmp_path / "file.py"
    file.write_text(
        'MOST_NODES = 3\n"""Said anew."""\n\n\nclass Making:\n    def told(self, found: int) -> None:\n'
        "        # Whoever asks.\n        known = found\n"
    )
    assert sorted((each.kind, each.word) for each in breaches_of(file, tmp_path)) == [
        ("class", "Making"), ("constant", "MOST_NODES"), ("function", "told"), ("name", "found"), ("name", "known"),
        ("prose", "anew"), ("prose", "whoever"),
    ]  # fmt: skip


def test_nouns_that_end_in_ing_are_no_breach(tmp_path: Path):
    file = tmp_path / "file.py"
    file.write_text("class StorageSetting: ...\nclass Listing: ...\n")
    assert list(breaches_of(file, tmp_path)) == []


def test_a_breach_says_where_it_stands():
    assert str(Breach("a/b.py", 3, "told", "name")) == "a/b.py:3: name 'told'"
