"""The documents of a store of metrics in memory."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from dataclasses import replace
from threading import RLock

from drumbeat.ports.metrics import NEXT_VERSION, Document
from drumbeat.protocol.errors import ConflictError, NotFoundError
from drumbeat.protocol.metrics import JsonObject


class MemoryDocuments:
    """The part of `MetricStore` that is about documents."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = RLock()
        self._documents: dict[tuple[str, str, int], JsonObject] = {}
        self._versions: dict[tuple[str, str], int] = {}

    def add_document(self, document: Document) -> Document:
        with self._lock:
            which = (document.kind, document.name)
            if document.version == NEXT_VERSION:
                self._versions[which] = self._versions.get(which, 0) + 1
                document = replace(document, version=self._versions[which])
            if (*which, document.version) in self._documents:
                raise ConflictError(f"{document.kind} {document.name!r} exists already")
            self._documents[*which, document.version] = copy.deepcopy(document.body)
            return document

    def change_document(
        self, kind: str, name: str, version: int, change: Callable[[JsonObject], JsonObject]
    ) -> Document:
        with self._lock:
            body = change(self.document(kind, name, version).body)
            self._documents[kind, name, version] = copy.deepcopy(body)
            return Document(kind, name, version, body)

    def remove_documents(self, kind: str, name: str, version: int | None = None) -> int:
        with self._lock:
            gone = [key for key in self._documents if key[:2] == (kind, name) and version in {None, key[2]}]
            for key in gone:
                del self._documents[key]
            return len(gone)

    def rename_documents(self, kinds: Collection[str], name: str, new_name: str) -> None:
        with self._lock:
            if any(key[0] in kinds and key[1] == new_name for key in self._documents):
                raise ConflictError(f"{new_name!r} exists already")
            for kind, old, version in list(self._documents):
                if kind in kinds and old == name:
                    self._documents[kind, new_name, version] = self._documents.pop((kind, old, version))

    def document(self, kind: str, name: str, version: int = 0) -> Document:
        body = self._documents.get((kind, name, version))
        if body is None:
            raise NotFoundError(f"there is no {kind} {name!r}")
        return Document(kind, name, version, copy.deepcopy(body))

    def documents(self, kind: str, name: str | None = None) -> list[Document]:
        with self._lock:
            keys = sorted(key for key in self._documents if key[0] == kind and name in {None, key[1]})
            return [self.document(*key) for key in keys]
