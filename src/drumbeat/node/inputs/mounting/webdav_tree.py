"""An input as a tree of folders and files, and its description in WebDAV (RFC 4918). No sockets here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import quote

from drumbeat.model.input_listing import ListedFile

_HEAD = '<?xml version="1.0" encoding="utf-8"?>\n<D:multistatus xmlns:D="DAV:">'
_FOLDER = "<D:resourcetype><D:collection/></D:resourcetype>"
_FILE = "<D:resourcetype/><D:getcontentlength>{}</D:getcontentlength>"
_ONE = (
    "<D:response><D:href>{}</D:href><D:propstat><D:prop>{}</D:prop>"
    "<D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
)


class Tree:
    """Files by the path at which they are shown, "" = the root."""

    def __init__(self, files: Mapping[str, ListedFile]) -> None:
        self._below: dict[str, dict[str, ListedFile | None]] = {"": {}}
        for path, file in files.items():
            self._put(path, file)

    def _put(self, path: str, file: ListedFile) -> None:
        folder, _, name = path.rpartition("/")
        above = folder
        while above not in self._below:
            self._below[above] = {}
            above = above.rpartition("/")[0]
        self._below[folder][name] = file
        while folder:
            folder, _, name = folder.rpartition("/")
            self._below[folder].setdefault(name, None)

    def file(self, path: str) -> ListedFile | None:
        """Returns the file at a path; None = there is none."""
        folder, _, name = path.rpartition("/")
        return self._below.get(folder, {}).get(name)

    def is_folder(self, path: str) -> bool:
        """Whether there is such a folder."""
        return path in self._below

    def properties(self, path: str, *, is_deep: bool) -> Iterator[bytes]:
        """Returns the answer to a PROPFIND. is_deep: includes the direct children."""
        yield _HEAD.encode()
        yield _response(path, self.file(path))
        if is_deep and path in self._below:
            for name, file in self._below[path].items():
                yield _response(f"{path}/{name}" if path else name, file)
        yield b"</D:multistatus>"


def _response(path: str, file: ListedFile | None) -> bytes:
    href = f"/{quote(path, errors='surrogateescape')}"
    if file is None:
        return _ONE.format(f"{href.rstrip('/')}/", _FOLDER).encode()
    return _ONE.format(href, _FILE.format(file.size)).encode()
