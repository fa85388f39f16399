"""The files that a snapshot leaves out: by `.amlignore`, else `.gitignore`, in each folder, read as git does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pathspec import GitIgnoreSpec

from drumbeat.model.errors import SpecError, StorageError

ALWAYS = frozenset({".git", "__pycache__"})
"""Never part of what a job needs; Python's caches would make unchanged code look changed."""


FILES = (".amlignore", ".gitignore")
"""The files with rules; the first one that exists counts."""


@dataclass(frozen=True)
class Spec:
    """The rules of one file. start: its folder in the snapshot. lines: the number of each rule's line."""

    start: str
    rules: GitIgnoreSpec
    lines: tuple[int, ...]

    @classmethod
    def from_lines(cls, start: str, lines: Sequence[str]) -> Spec:
        """Reads the lines of a file."""
        kept = {number: line for number, line in enumerate(lines, 1) if line.strip() and _is_readable(line)}
        return cls(start, GitIgnoreSpec.from_lines(kept.values()), tuple(kept))


@dataclass(frozen=True)
class IgnoreRules:
    """The rules that hold in one folder: its own, then those of the folders above it. always: names that stay out."""

    file: str
    specs: tuple[Spec, ...] = ()
    always: frozenset[str] = ALWAYS

    @classmethod
    def for_folder(cls, root: Path) -> IgnoreRules:
        """The rules at the root of a snapshot; whether it has an `.amlignore` decides for the whole tree."""
        return cls.for_entries({file: root / file for file in FILES})

    @classmethod
    def for_entries(cls, places: Mapping[str, Path]) -> IgnoreRules:
        """The rules at the root of a snapshot. places: of what lies there, by name."""
        file = next((file for file in FILES if file in places and places[file].is_file()), FILES[-1])
        return cls(file).with_file(places.get(file), "")

    def within(self, folder: Path, path: str) -> IgnoreRules:
        """The rules in a folder below; path: of that folder in the snapshot, ending in `/`, "" for the root.

        Raises SpecError, StorageError where they can't be read: what they keep out may be secret.
        """
        return self.with_file(folder / self.file if self.file else None, path)

    def with_file(self, place: Path | None, path: str) -> IgnoreRules:
        """The rules in a folder below, whose own file lies at a place; None = it has none. See `within`."""
        if place is None or not place.is_file():
            return self
        try:
            lines = place.read_text("utf-8-sig").splitlines()
        except OSError as error:
            raise StorageError(f"it can't be read: {error.strerror}", where=str(place)) from error
        except UnicodeDecodeError as error:
            what = "the file isn't UTF-8 text, so what it keeps out can't be told"
            raise SpecError(what, where=str(place), fix="Save it as UTF-8.") from error
        return replace(self, specs=(Spec.from_lines(path, lines), *self.specs))

    def skips(self, path: str) -> bool:
        """Whether that path, ending in `/` for a folder, is left out. The rule of the nearest folder counts."""
        if path.rstrip("/").rsplit("/", 1)[-1] in self.always:
            return True
        return bool(self.line(path))

    def line(self, path: str) -> int:
        """The number of the line that leaves that path out, 0 = none does."""
        for spec in self.specs:
            check = spec.rules.check_file(path.removeprefix(spec.start))
            if check.include is not None and check.index is not None:
                return spec.lines[check.index] if check.include else 0
        return 0


WHOLE = IgnoreRules(file="", always=frozenset())
"""Leaves nothing out."""


def _is_readable(line: str) -> bool:
    """Whether it is a pattern; git says of a line that isn't, like a lone `!`, that it never matches."""
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True
