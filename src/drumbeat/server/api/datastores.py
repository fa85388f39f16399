"""The datastores: the routes of each kind, of which the one that creates them may ask the store."""

from __future__ import annotations

from pydantic import Field

from drumbeat.resources.datastore import DATASTORE
from drumbeat.server.api.resources import NewResource, resource_router


class NewDatastore(NewResource):
    """document: the datastore, as a mapping in the form of its file. source: that file, for messages."""

    check: bool = Field(default=True, description="Ask the store first, and keep nothing when it doesn't answer.")


router = resource_router(DATASTORE, NewDatastore)
