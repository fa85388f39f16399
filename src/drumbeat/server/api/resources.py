"""The routes of named things, made of the records of their kinds. A secret that came in is never shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import Path, Response
from fastapi.routing import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from drumbeat.protocol.api.notices import NoticeTargetView
from drumbeat.resources.datastore import DATASTORE
from drumbeat.resources.kind import Kind
from drumbeat.resources.kinds import KINDS
from drumbeat.resources.notice_target import NOTICE_TARGET
from drumbeat.server.context import ControlOf
from drumbeat.server.routing import new_router

V = TypeVar("V")

Name = Annotated[str, Path(min_length=1, max_length=255)]


class NewResource(BaseModel):
    """document: the resource, as a mapping in the form of its file. source: that file, for messages."""

    model_config = ConfigDict(extra="forbid")

    document: dict[str, Any] = Field(repr=False)
    source: str = Field(default="", max_length=4096)


def resource_router(kind: Kind[V], body: type[NewResource] = NewResource) -> APIRouter:
    """Returns the routes of a kind. body: of the route that creates one; its other keys go to the service."""
    router = new_router(f"/api/v1/{kind.path}", tags=[kind.path])

    def create(body: NewResource, control: ControlOf, response: Response) -> Any:
        more = body.model_dump(exclude={"document", "source"})
        made, is_new = control.catalogs.of(kind).create(body.document, body.source or kind.name, **more)
        response.status_code = 201 if is_new else 200
        return made

    def show_all(control: ControlOf) -> Any:
        return control.catalogs.of(kind).list()

    def show(name: Name, control: ControlOf) -> Any:
        return control.catalogs.of(kind).show(name)

    def delete(name: Name, control: ControlOf) -> Response:
        control.catalogs.of(kind).delete(name)
        return Response(status_code=204)

    def add(path: str, method: str, endpoint: Callable[..., Any], name: str, **settings: Any) -> None:
        router.add_api_route(path, endpoint, methods=[method], name=name, **settings)

    create.__annotations__["body"] = body
    replaced = {200: {"description": "There was one of this name; this is in its place."}}
    add(
        "", "POST", create, f"create_{kind.word}", response_model=kind.view_type, status_code=201, responses=replaced,
        description=f"Creates a {kind.noun}, or replaces the one of its name. Its secrets are kept encrypted.",
    )  # fmt: skip
    add(
        "", "GET", show_all, f"list_{kind.plural.replace(' ', '_')}", response_model=list[kind.view_type],
        description=kind.sentences.list,
    )  # fmt: skip
    add("/{name}", "GET", show, f"get_{kind.word}", response_model=kind.view_type, description=kind.sentences.show)
    add(
        "/{name}", "DELETE", delete, f"delete_{kind.word}", response_model=None, status_code=204,
        description=kind.sentences.delete,
    )  # fmt: skip
    return router


# --- the kinds ----------------------------------------------------------------------------------------------------
class NewDatastore(NewResource):
    """document: the datastore, as a mapping in the form of its file. source: that file, for messages."""

    check: bool = Field(default=True, description="Ask the store first, and keep nothing when it doesn't answer.")


BODIES: dict[str, type[NewResource]] = {DATASTORE.name: NewDatastore}
"""Of kinds that are created with more than a document."""
ROUTERS = {kind.name: resource_router(kind, BODIES.get(kind.name, NewResource)) for kind in KINDS}


@ROUTERS[NOTICE_TARGET.name].post("/{name}/test")
def send_test_notice(name: Name, control: ControlOf) -> NoticeTargetView:
    """Delivers a test notice now, and answers when it was delivered or refused."""
    control.notice_sender.test(name)
    return control.catalogs.notices.show(name)
