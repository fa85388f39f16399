"""The folders and files that a snapshot is packed from: one of code, and those that are laid over it.

Nothing is copied. A folder goes into the folder of the same name below it; any other thing takes the place of what is
there, as long as that is no folder.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath


@dataclass(frozen=True)
class Layer:
    """A folder or file on this machine. path: where it lies in the snapshot, "" = it is the whole snapshot."""

    place: Path
    path: str = ""

    @cached_property
    def top(self) -> Path:
        """Where it really lies."""
        return self.place.resolve()

    def within(self, aim: Path) -> str | None:
        """Returns the path in the snapshot of a place on this machine, None for one that isn't in this layer."""
        return str(PurePosixPath(self.path, aim.relative_to(self.top))) if aim.is_relative_to(self.top) else None


@dataclass(frozen=True)
class LayerPart:
    """A file, folder or link of one layer, at one path of the snapshot. is_folder: a link to one is none."""

    place: Path
    layer: Layer
    is_folder: bool = False


def link_target(link: LayerPart, path: str, layers: Sequence[Layer]) -> str | None:
    """Returns where a link points to in the snapshot, relative to it; None for a link that leaves the snapshot."""
    aim = _aim(link.place)
    real = Path(os.path.realpath(aim))
    # As written it may go up past its folder and name it on its way back, and there it has another name.
    own = [link.layer, *(layer for layer in layers if layer is not link.layer)]
    inner = next((found for layer in own if (found := layer.within(aim)) is not None), None)
    if inner is not None:
        is_inside = any(layer.within(real) is not None for layer in layers)
    else:
        inner = _beside(link.place.readlink(), path)
        is_inside = inner is not None and len(layers) > 1
    return os.path.relpath(f"/{inner}", f"/{PurePosixPath(path).parent}") if inner is not None and is_inside else None


def _aim(link: Path) -> Path:
    """What a link names. `..` goes up from where a folder really lies, as the kernel has it."""
    parts = (link.parent.resolve() / link.readlink()).parts
    climbed = max((n for n, one in enumerate(parts, 1) if one == ".."), default=1)
    return Path(os.path.realpath(Path(*parts[:climbed])), *parts[climbed:])


def _beside(written: Path, path: str) -> str | None:
    """Returns the path that a link in one layer names in another one, as the ranks find it; None = none."""
    names = [one for one in written.parts if one != ".."]
    inner = os.path.normpath(PurePosixPath(path).parent / written)
    is_climb_first = [*written.parts[len(written.parts) - len(names) :]] == names
    is_outside = written.is_absolute() or PurePosixPath(inner).parts[:1] == ("..",)
    return inner if is_climb_first and not is_outside else None
