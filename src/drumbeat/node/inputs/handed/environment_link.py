"""The server's part in handing an environment on: what one thread asks and sends."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Generator, Mapping
from urllib.parse import quote

from drumbeat.model import small_file_bundles, wire
from drumbeat.model.agent import Enrolment
from drumbeat.model.environment_manifest import EnvironmentAnswer
from drumbeat.model.errors import UnreachableError
from drumbeat.node.platform.server_link import ServerLink


class EnvironmentLink(ServerLink):
    """Asks for and sends the environment `key`. Its contents are fetched as the files of an input are."""

    def __init__(self, enrolment: Enrolment, key: str) -> None:
        super().__init__(enrolment)
        self._path = f"/environments/{quote(key, safe='')}"

    def ask(self, progress: str = "", rejected: str = "", *, has_it: bool = False) -> EnvironmentAnswer:
        """What to do now. rejected: the digest of a manifest that wasn't of use. has_it: whether it is made here."""
        body = json.dumps({"progress": progress, "rejected": rejected, "has_it": has_it}).encode()
        return wire.from_wire(EnvironmentAnswer, self._json("POST", self._path, body)["environment"])

    def give_up(self) -> None:
        """Makes it no more."""
        self._json("DELETE", self._path, b"")

    def manifest(self, digest: str) -> bytes:
        """The packed manifest."""
        return self._whole("GET", f"{self._path}/manifest?digest={quote(digest)}", b"")

    def offer(self, packed: bytes) -> list[str]:
        """Sends the manifest; returns the contents that the server lacks."""
        return self._json("PUT", f"{self._path}/manifest", packed)["missing"]

    def send_some(self, contents: Mapping[str, bytes]) -> None:
        """Sends small contents."""
        self._json("PUT", f"{self._path}/contents", small_file_bundles.sent(contents))

    def send_piece(self, digest: str, offset: int, data: bytes) -> int:
        """Sends a piece of a large content; returns how much of it the server has."""
        return self._json("PUT", f"{self._path}/contents/{digest}?offset={offset}", data)["size"]

    def commit_contents(self) -> list[str]:
        """Says that all was sent; returns the contents that are missing."""
        return self._json("POST", f"{self._path}/commit", b"")["missing"]

    def some(self, sizes: Mapping[str, int]) -> dict[str, bytes]:
        """Those of these small contents that the server has."""
        body = self._whole("POST", f"{self._path}/contents", small_file_bundles.request(sizes))
        try:
            return small_file_bundles.opened(sizes, body)
        except ValueError:
            return {}

    def links(self, name: str, paths: list[str]) -> list[None]:
        """No content has a link of its own."""
        del name
        return [None] * len(paths)

    @contextlib.contextmanager
    def input_file(self, name: str, path: str, offset: int, length: int) -> Generator[http.client.HTTPResponse]:
        """A range of a content, whose path is its SHA-256, as a stream."""
        del name
        with self._range(f"{self._path}/contents/{quote(path)}", offset, length) as response:
            yield response

    def _whole(self, method: str, path: str, body: bytes) -> bytes:
        response = self._request(method, path, body)
        try:
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._drop()
            raise UnreachableError(f"the server closed the connection: {error}") from error
        if response.status != 200:
            raise self._error(response.status, content)
        return content
