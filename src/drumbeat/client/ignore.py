"""What stays out of a snapshot: `.amlignore`, else `.gitignore`, in the folder and those below, read as git does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from drumbeat.protocol.errors import SpecError, StorageError

ALWAYS = frozenset({".git", "__pycache__"})
"""Never part of what a job needs; Python's caches would make unchanged code look changed."""


@dataclass(frozen=True)
class Rules:
    """The rules that hold in one folder: its own, then those of the folders above it."""

    file: str
    specs: tuple[tuple[str, GitIgnoreSpec], ...] = ()

    @classmethod
    def of(cls, root: Path) -> Rules:
        """The rules at the root of a snapshot; whether it has an `.amlignore` decides for the whole tree."""
        return cls(".amlignore" if (root / ".amlignore").is_file() else ".gitignore").within(root, "")

    def within(self, folder: Path, path: str) -> Rules:
        """The rules in a folder below; path: of that folder in the snapshot, ending in `/`, "" for the root.

        Raises SpecError, StorageError where they can't be read: what they keep out may be secret.
        """
        place = folder / self.file
        if not place.is_file():
            return self
        try:
            lines = place.read_text("utf-8-sig").splitlines()
        except OSError as error:
            raise StorageError(f"it can't be read: {error.strerror}", where=str(place)) from error
        except UnicodeDecodeError as error:
            what = "the file isn't UTF-8 text, so what it keeps out can't be told"
            raise SpecError(what, where=str(place), fix="Save it as UTF-8.") from error
        return Rules(self.file, ((path, GitIgnoreSpec.from_lines(filter(_is_readable, lines))), *self.specs))

    def skips(self, path: str) -> bool:
        """Whether that path, ending in `/` for a folder, stays out. The nearest folder with an opinion has it."""
        if path.rstrip("/").rsplit("/", 1)[-1] in ALWAYS:
            return True
        for start, spec in self.specs:
            include = spec.check_file(path.removeprefix(start)).include
            if include is not None:
                return include
        return False


def _is_readable(line: str) -> bool:
    """Whether it is a pattern; git says of a line that isn't, like a lone `!`, that it never matches."""
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True
