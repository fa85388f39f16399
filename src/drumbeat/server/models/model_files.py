"""The files of a model: their SHA-256, and paths at which a scanner can read them."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from drumbeat.core.models.statement import digest_of_files, digest_of_pieces, is_covered
from drumbeat.model.errors import NotFoundError, RefusedError
from drumbeat.model.input_listing import Listing
from drumbeat.ports.data import DataAccess
from drumbeat.server.data import manifests


@dataclass(frozen=True)
class ModelFiles:
    """The content of a model at one moment. sums: SHA-256 by path."""

    listing: Listing
    sums: Mapping[str, str]

    @property
    def digest(self) -> str:
        """The digest of the whole model, as in its statement."""
        return digest_of_files({path: digest for path, digest in self.sums.items() if is_covered(path)})


def read_files(data: DataAccess, uri: str, *, is_file: bool, is_fresh: bool = False) -> ModelFiles:
    """Returns the files at a URI with their digests.

    Digests that a manifest or the store tells are taken. is_fresh: all bytes are read instead. Raises what the store
    does; NotFoundError for an empty folder.
    """
    listing = data.listing(uri, is_file=is_file)
    if not listing.files:
        raise NotFoundError("the folder has no files", where=uri, fix="Name the folder that the model is in.")
    manifest = None if is_file or is_fresh else manifests.find(data, uri)
    from_manifest: manifests.Files = manifest.files if manifest and manifest.is_complete else {}
    sums: dict[str, str] = {}
    for file in listing.files:
        size, digest = from_manifest.get(file.path, (-1, ""))
        digests = file.sha256, digest if size == file.size else ""
        recorded = "" if is_fresh else next(filter(None, digests), "")
        sums[file.path] = recorded or digest_of_pieces(data.read(uri, file))
    return ModelFiles(listing, sums)


def is_one_file(data: DataAccess, uri: str) -> bool:
    """Whether a URI is that of a file, and not of a folder with files."""
    with suppress(NotFoundError, RefusedError):
        if data.listing(uri, is_file=False).files:
            return False
    with suppress(NotFoundError, RefusedError):
        return bool(data.listing(uri, is_file=True).files)
    return False


@contextmanager
def local_copy(data: DataAccess, uri: str, files: Listing) -> Generator[Path]:
    """Gives the path of a model's folder, or of its file, on this machine; what is in a remote store is copied."""
    if place := data.folder(uri):
        yield Path(place)
        return
    with tempfile.TemporaryDirectory(prefix="drumbeat-model-") as folder:
        for file in files.files:
            path = Path(folder, *file.path.split("/"))
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as written:
                for piece in data.read(uri, file):
                    written.write(piece)
        yield Path(folder)
