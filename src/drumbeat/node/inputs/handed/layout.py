"""An environment in its folder on this node, made of links to contents in the cache."""

from __future__ import annotations

import os
import shutil

from drumbeat.model.environment_manifest import EnvironmentFile, EnvironmentManifest
from drumbeat.model.errors import RefusedError
from drumbeat.node.environments.manifest import target_here
from drumbeat.node.environments.relocation import BINARY, relocated
from drumbeat.node.inputs.cache.files import Files


def check(manifest: EnvironmentManifest) -> None:
    """Raises RefusedError for a manifest whose files would lie outside of its folder."""
    for path in (*manifest.folders, *manifest.links, *(file.path for file in manifest.files)):
        if any(part in ("", ".", "..") for part in path.split("/")) or "\0" in path:
            raise RefusedError("an environment has a file that lies outside of it", where=ascii(path[:200])[1:-1])
    above_links = {f"{path}/" for path in manifest.links}
    paths = (*manifest.folders, *(file.path for file in manifest.files))
    if any(f"{part}/" in above_links for path in paths for part in _above(path)):
        raise RefusedError("an environment has a file behind a symbolic link", where=manifest.prefix)


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def build(files: Files, manifest: EnvironmentManifest, folder: str) -> None:
    """Lays the environment out in `folder`, which isn't there. All contents are in the cache.

    Raises OSError, NotRelocatableError.
    """
    os.mkdir(folder, 0o755)
    for path in manifest.folders:
        os.mkdir(f"{folder}/{path}", 0o755)
    for file in manifest.files:
        _put(files, file, f"{folder}/{file.path}", (manifest.prefix, folder))
    for path, target in manifest.links.items():
        os.symlink(target_here(target, folder), f"{folder}/{path}")


def _put(files: Files, file: EnvironmentFile, place: str, moved: tuple[str, str]) -> None:
    source = files.place(file.sha256)
    if not file.size:
        _write(place, b"", file)
    elif file.rewrite and not (file.rewrite == BINARY and moved[0] == moved[1]):
        with open(source, "rb") as opened:
            data = opened.read()
        _write(place, relocated(file.rewrite, data, os.fsencode(moved[0]), os.fsencode(moved[1])), file)
    else:
        if file.is_executable:
            os.chmod(source, 0o555)  # noqa: S103 (a program of the environment)
        _link(source, place, file)


def _link(source: str, place: str, file: EnvironmentFile) -> None:
    """A hard link; a copy, where the cache is on another disk or has too many links to it."""
    try:
        os.link(source, place)
    except OSError:
        shutil.copyfile(source, place)
        os.chmod(place, 0o755 if file.is_executable else 0o644)


def _write(place: str, data: bytes, file: EnvironmentFile) -> None:
    with open(place, "wb") as opened:
        opened.write(data)
    if file.is_executable:
        os.chmod(place, 0o755)  # noqa: S103 (as above)
