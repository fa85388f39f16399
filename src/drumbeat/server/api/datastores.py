"""Where data lies: datastores are made, looked at and forgotten. What comes in as a credential never goes out again."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Response
from pydantic import BaseModel, ConfigDict, Field

from drumbeat.protocol.api.data import DatastoreView
from drumbeat.server.context import ControlOf
from drumbeat.server.routing import new_router

router = new_router("/api/v1/datastores", tags=["datastores"])

Name = Annotated[str, Path(min_length=1, max_length=255)]


class NewDatastore(BaseModel):
    """document: the datastore, as a mapping in the form of its file. source: that file, for messages."""

    model_config = ConfigDict(extra="forbid")

    document: dict[str, Any] = Field(repr=False)
    source: str = Field(default="datastore", min_length=1, max_length=4096)
    check: bool = Field(default=True, description="Ask the store first, and keep nothing when it doesn't answer.")


@router.post("", status_code=201, responses={200: {"description": "There was one of this name; this is in its place."}})
def create_datastore(body: NewDatastore, control: ControlOf, response: Response) -> DatastoreView:
    """Makes a datastore, in place of one of its name. Its credentials are kept encrypted."""
    made, is_new = control.catalogs.create_datastore(body.document, body.source, check=body.check)
    response.status_code = 201 if is_new else 200
    return made


@router.get("")
def list_datastores(control: ControlOf) -> list[DatastoreView]:
    """The datastores by name."""
    return control.catalogs.datastores.views()


@router.get("/{name}")
def get_datastore(name: Name, control: ControlOf) -> DatastoreView:
    """One datastore; `default` is the one where data goes for which none is named."""
    return control.catalogs.datastores.view(name)


@router.delete("/{name}", status_code=204)
def delete_datastore(name: Name, control: ControlOf) -> Response:
    """Forgets a datastore. What lies in it stays."""
    control.catalogs.delete_datastore(name)
    return Response(status_code=204)
