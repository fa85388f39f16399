"""The environments that this node has, with their manifests. What another one has in common with them isn't fetched."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Sequence

from drumbeat.model import wire
from drumbeat.model.environment_manifest import EnvironmentManifest
from drumbeat.model.input_listing import ListedFile
from drumbeat.node.environments import manifest
from drumbeat.node.environments.folders import EnvironmentFolder
from drumbeat.node.environments.manifest import MadeEnvironment, OwnFile
from drumbeat.node.inputs.cache.files import Files
from drumbeat.node.inputs.cache.partial_file import forget
from drumbeat.node.platform import cache_folders

_MANIFEST = ".manifest"
_MOST = 8
"""Environments that are looked into, the newest first."""
_BLOCK = 4 << 20


def unpacked(packed: bytes) -> EnvironmentManifest:
    """A manifest as it is sent and kept. Raises ValueError, zlib.error."""
    return wire.from_wire(EnvironmentManifest, json.loads(zlib.decompress(packed)))


def keep(place: EnvironmentFolder, packed: bytes) -> None:
    """Keeps the manifest beside the environment: reading all files again would take long. Raises OSError."""
    path = place.folder + _MANIFEST
    with open(f"{path}.part", "wb") as file:
        file.write(packed)
    os.replace(f"{path}.part", path)


def kept(place: EnvironmentFolder) -> MadeEnvironment | None:
    """An environment as its manifest has it; None = it has none."""
    try:
        with open(place.folder + _MANIFEST, "rb") as file:
            return manifest.of_folder(unpacked(file.read()), place.folder)
    except (OSError, ValueError, zlib.error):
        return None


def copy_from(files: Files, missing: Sequence[ListedFile]) -> None:
    """Puts into the cache those files that an environment of this node has. Raises OSError.

    They are copied: a file that a tool has installed keeps its time, by which compiled Python is checked.
    """
    wanted = {file.key: file for file in missing}
    for place in _newest():
        made = kept(place) if wanted else None
        for name in wanted.keys() & made.own.keys() if made else ():
            if made and _copy(files, wanted[name], made.own[name]):
                del wanted[name]


def _newest() -> Iterator[EnvironmentFolder]:
    folder = glob.escape(cache_folders.folder("environments"))
    manifests = [(os.stat(path).st_mtime, path) for path in glob.glob(f"{folder}/*{_MANIFEST}") if os.path.exists(path)]
    for _, path in sorted(manifests, reverse=True)[:_MOST]:
        place = EnvironmentFolder(path.removesuffix(_MANIFEST))
        if place.made() is not None:
            yield place


def _copy(files: Files, file: ListedFile, own: OwnFile) -> bool:
    """Whether the file is there now; not if it isn't what it was, or another process brings it."""
    part = files.take_part(file.key)
    if part is None:
        return False
    try:
        digest, offset = hashlib.sha256(), 0
        os.ftruncate(part, 0)
        with contextlib.suppress(FileNotFoundError):  # The environment is being removed.
            while offset < file.size and (data := own.read(offset, min(_BLOCK, file.size - offset))):
                digest.update(data)
                offset += os.pwrite(part, data, offset)
        if offset != file.size or digest.hexdigest() != file.sha256:
            forget(files, file.key)
            return False
        files.take_in(part, files.part(file.key), file.key)
    finally:
        os.close(part)
    return True
