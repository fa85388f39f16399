"""Datastores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drumbeat.ml.calls.operation import Operations, pages, unavailable
from drumbeat.ml.objects.datastores import Datastore, datastore_from


class DatastoreOperations(Operations):
    """Datastores. Credentials are sealed by the server and never come back."""

    def create_or_update(self, datastore: Datastore) -> Datastore:
        """Creates a datastore, or replaces the one of its name. As with Azure's client, its store isn't asked yet."""
        return datastore_from(self.client.create_datastore(datastore.to_document(), check=False))

    def get(self, name: str, *, include_secrets: bool = False) -> Datastore:
        """Returns a datastore, without its credentials."""
        del include_secrets
        return datastore_from(self.client.datastore(name))

    def get_default(self, *, include_secrets: bool = False) -> Datastore:
        """Returns the datastore of data for which none is named."""
        del include_secrets
        return datastore_from(self.client.datastore("default"))

    def list(self, *, include_secrets: bool = False) -> Iterator[Datastore]:
        """Returns the datastores, without their credentials."""
        del include_secrets
        return pages(datastore_from(view) for view in self.client.datastores())

    def delete(self, name: str) -> None:
        """Deletes the entry of a datastore; what lies in it stays."""
        self.client.delete_datastore(name)

    def mount(self, path: str, **keys: Any) -> None:
        """Refuses: drumbeat mounts data for jobs only."""
        raise unavailable("drumbeat mounts data for jobs only", f"Copy it: drumbeat data download {path} FOLDER")
