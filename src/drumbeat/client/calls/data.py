"""The calls of `Client` about data: data by name, files in stores."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drumbeat.client.connection import LISTING_TIMEOUT, Connection
from drumbeat.client.responses import view, views
from drumbeat.model.api.data import DataView, EntryView, ListingView
from drumbeat.model.errors import DrumbeatError, SpecError
from drumbeat.model.folder_layout import UPLOADS

if TYPE_CHECKING:
    from drumbeat.client.store_transfers import Transfer
    from drumbeat.client.upload_files import SourceFile
    from drumbeat.jobfile.data.assets import DataAsset

    GivenData = str | Path | Mapping[str, Any] | DataAsset

DEFAULT = "default"

BytesCallback = Callable[[int], None]
NoteCallback = Callable[[str], None]


def _ignore(_: object) -> None:
    pass


@dataclass(frozen=True)
class UploadListener:
    """The callbacks of an upload."""

    on_bytes: BytesCallback = _ignore
    """Takes the number of bytes of each piece that was sent."""
    on_note: NoteCallback = _ignore
    """Takes notes for the user, before any file is sent."""


class DataCalls:
    """A part of `Client`."""

    connection: Connection

    # --- data by name -----------------------------------------------------------------------------------------
    def create_data(
        self,
        data: GivenData,
        *,
        sets: Sequence[str] = (),
        on_bytes: BytesCallback = _ignore,
        on_note: NoteCallback = _ignore,
    ) -> DataView:
        """Registers a version of data: the path of a file, or one made in Python. The same content is the same version.

        A local path is uploaded first, to a folder that is named by its content. on_bytes: takes the number of bytes of
        each piece that was sent; on_note: takes notes for the user before the upload. Raises SpecError; ConflictError
        when the version exists with other content.
        """
        asked, base, source = _asked(data, sets)
        asked = _with_file_type(asked, base)
        document = asked.model_dump(mode="json", exclude_unset=True)
        from drumbeat.jobfile.data.paths import Local, reference_to

        place = reference_to(asked.path, f"{source}: path")
        if isinstance(place, Local):
            here = base / Path(place.path).expanduser()
            return self._register_uploaded(
                document, source, here, self._brought(here, asked, UploadListener(on_bytes, on_note))
            )
        return self._register(document, source)

    def _register(self, document: dict[str, Any], source: str, **more: Any) -> DataView:
        document.pop("datastore", None)
        body = {"document": document, "source": source, **more}
        return view(DataView, self.connection.call("POST", "/data", json=body, timeout=LISTING_TIMEOUT))

    def _register_uploaded(self, document: dict[str, Any], source: str, here: Path, uploaded: UploadedData) -> DataView:
        """Registers uploaded data; reports problems at the paths of the local files."""
        try:
            return self._register({**document, "path": uploaded.uri}, source, is_uploaded=uploaded.is_new)
        except DrumbeatError as error:
            # The server calls the default datastore by its name.
            _, separator, rest = error.where.partition(uploaded.uri.partition("/paths/")[2])
            if not separator or error.fields:
                raise
            raise type(error)(error.what, where=f"{here}{rest}", fix=error.fix) from None

    def _brought(self, place: Path, asked: DataAsset, listener: UploadListener) -> UploadedData:
        is_file = asked.type == "uri_file"
        if place.is_dir() == is_file and place.exists():
            what = f"this is a {'folder' if place.is_dir() else 'file'}, and the type is {asked.type}"
            is_model = asked.type.endswith("_model")
            fix = f"{'Name the folder that it is in, or write' if is_model else 'Write'} "
            fix += f"`type: {'uri_folder' if is_file else 'uri_file'}`."
            raise SpecError(what, where=str(place), fix=fix)
        return upload_by_content(self.connection, place, asked.datastore or DEFAULT, listener)

    # --- files in stores --------------------------------------------------------------------------------------
    def entries(self, uri: str) -> list[EntryView]:
        """Lists the entries directly at an address: in a datastore, a version of data, a job's output, a store."""
        entries = self.connection.call("GET", "/storage/entries", params={"uri": uri})
        return views(EntryView, entries)

    def upload_data(
        self, local: str | Path, uri: str, *, on_bytes: BytesCallback = _ignore, on_note: NoteCallback = _ignore
    ) -> Transfer:
        """Copies a folder or a file into a folder of a store, without the files that are there already."""
        from drumbeat.client.store_transfers import Upload

        place = Path(local).expanduser()
        sources = _sources(place, on_note)
        return Upload(self.connection, uri.rstrip("/"), sources, _who(), on_bytes, is_folder=place.is_dir()).run()

    def download_data(self, uri: str, to: str | Path, *, on_bytes: BytesCallback = _ignore) -> Transfer:
        """Copies the files at an address into a local folder, without the files that are there already."""
        from drumbeat.client.store_transfers import Download

        return Download(self.connection, self.list_files(uri), Path(to), on_bytes).run()

    def list_files(self, uri: str) -> ListingView:
        """Every file below an address, or the one file that it is."""
        params = {"uri": uri, "either": True}
        return view(
            ListingView, self.connection.call("GET", "/storage/listing", params=params, timeout=LISTING_TIMEOUT)
        )


@dataclass(frozen=True)
class UploadedData:
    """The place of uploaded files in a datastore. is_new: some files were missing before the upload."""

    uri: str
    is_new: bool = False


def upload_uri(
    connection: Connection, place: Path, datastore: str, listener: UploadListener, *, is_sending: bool = True
) -> str:
    """Uploads as `upload_by_content`; returns the address."""
    return upload_by_content(connection, place, datastore, listener, is_sending=is_sending).uri


def upload_by_content(
    connection: Connection, place: Path, datastore: str, listener: UploadListener, *, is_sending: bool = True
) -> UploadedData:
    """Uploads a file or folder into a folder of a datastore that is named after its content.

    is_sending: False = only the place is returned.
    """
    from drumbeat.client.store_transfers import Upload, content_key

    sources = _sources(place, listener.on_note)
    # The last part is the user's own name for it; the key makes the place unique.
    uri = f"azureml://datastores/{datastore}/paths/{UPLOADS}/{content_key(sources)}"
    is_folder = place.is_dir()
    target = f"{uri}/{_plain(place)}" if is_folder else f"{uri}/{sources[0].path}"
    if not is_sending or (not is_folder and _is_there(connection, target, sources[0])):
        return UploadedData(target)
    upload = Upload(connection, target if is_folder else uri, sources, _who(), listener.on_bytes, is_folder=is_folder)
    upload.run()
    return UploadedData(target, is_new=not upload.was_whole)


def _sources(place: Path, on_note: NoteCallback) -> list[SourceFile]:
    """Returns the files with their SHA-256. on_note: takes a note on links that lead elsewhere."""
    from drumbeat.client.store_transfers import hashed
    from drumbeat.client.upload_files import describe_links, list_sources

    sources = list_sources(place)
    if sentence := describe_links(sources):
        on_note(sentence)
    return hashed(sources)


def _is_there(connection: Connection, uri: str, source: SourceFile) -> bool:
    from drumbeat.model.errors import NotFoundError

    with suppress(NotFoundError):
        listing = connection.call("GET", "/storage/listing", params={"uri": uri, "is_file": True})
        return bool(listing["size"] == source.size)
    return False


def _plain(place: Path) -> str:
    return place.resolve().name or "data"


def _who() -> str:
    """Names this client in the manifest of a folder that may stay incomplete."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown user"
    return f"{user} on {socket.gethostname()}"


def _asked(data: GivenData, sets: Sequence[str]) -> tuple[DataAsset, Path, str]:
    """Returns the data, the folder that its path counts from, and its source. Raises SpecError."""
    from drumbeat.jobfile.data.assets import data_from, load_data

    if isinstance(data, str | Path):
        return load_data(data, sets), Path(data).absolute().parent, str(data)
    if sets:
        raise SpecError("values are set in a file; this data was made in Python", fix="Set them on the object.")
    return (data_from(data) if isinstance(data, Mapping) else data), Path.cwd(), "data"


def _with_file_type(asked: DataAsset, base: Path) -> DataAsset:
    """The same; a file on this machine that was given no type is a `uri_file`."""
    from drumbeat.jobfile.data.paths import local_path

    path = None if "type" in asked.model_fields_set else local_path(asked.path)
    is_file = path is not None and (base / Path(path).expanduser()).is_file()
    return asked.model_copy(update={"type": "uri_file"}) if is_file else asked
