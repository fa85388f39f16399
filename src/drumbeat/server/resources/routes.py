"""The routes of named things, generated from their kinds. Secrets are never returned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Path, Query, Response
from fastapi.routing import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from drumbeat.model.api.notices import NoticeTargetView
from drumbeat.model.api.requests import MAX_PARTS, EnvironmentFiles, StepParts
from drumbeat.resources.component import COMPONENT
from drumbeat.resources.data import DATA
from drumbeat.resources.datastore import DATASTORE
from drumbeat.resources.environment import ENVIRONMENT
from drumbeat.resources.kind import Kind
from drumbeat.resources.kinds import KINDS
from drumbeat.resources.model import MODEL
from drumbeat.resources.notice_target import NOTICE_TARGET
from drumbeat.server.context import ControlOf
from drumbeat.server.resources.environments import curated_views
from drumbeat.server.routing import new_router

Name = Annotated[str, Path(min_length=1, max_length=255)]


Version = Annotated[str, Path(min_length=1, max_length=255)]
NameOfVersions = Annotated[str | None, Query(max_length=255, description="Only versions of this one.")]
Archived = Annotated[bool, Query(description="Archived versions, too.")]


class NewResource(BaseModel):
    """document: the resource, as a mapping in the form of its file. source: that file, for messages."""

    model_config = ConfigDict(extra="forbid")

    document: dict[str, Any] = Field(repr=False)
    source: str = Field(default="", max_length=4096)

    @property
    def more(self) -> dict[str, Any]:
        """Returns the arguments of a kind's `create` besides its document."""
        return {key: getattr(self, key) for key in type(self).model_fields if key not in NewResource.model_fields}


Endpoint = Callable[..., Any]


def resource_router(
    kind: Kind[Any], body: type[NewResource] = NewResource, show_all: Endpoint | None = None
) -> APIRouter:
    """Returns the routes of a kind. body: of the route for creation. show_all: the list route, None = the usual one."""
    router, sentences = new_router(f"/api/v1/{kind.path}", tags=[kind.path]), kind.sentences
    plural, view = kind.plural.replace(" ", "_"), kind.view_type

    def add(route: str, endpoint: Endpoint, name: str, description: str, **settings: Any) -> None:
        method, path = route.split(" ")
        settings = {"response_model": view, **settings}
        router.add_api_route(path, endpoint, methods=[method], name=name, description=description, **settings)

    def create(body: NewResource, control: ControlOf, response: Response) -> Any:
        made, is_new = control.catalogs.service(kind).create(body.document, body.source or kind.name, **body.more)
        response.status_code = 201 if is_new else 200
        return made

    create.__annotations__["body"] = body
    again = AGAIN[kind.has_versions]
    add("POST ", create, f"create_{kind.word}", f"Creates {again[0]}", status_code=201, responses=again[1])
    lists = show_all or (_show_versions if kind.has_versions else _show_all)(kind)
    add("GET ", lists, f"list_{plural}", sentences.list, response_model=list[view])
    add("GET /{name}", _show(kind), f"get_{kind.word}", sentences.show)
    path, delete = "/{name}", _delete(kind)
    if kind.has_versions:
        path, delete = "/{name}/versions/{version}", _delete_version(kind)
        add(f"GET {path}", _show_version(kind), f"get_{kind.word}_version", sentences.show)
        for verb, does, is_archived in ARCHIVING:
            one, all_ = _archive_version(kind, is_archived=is_archived), _archive(kind, is_archived=is_archived)
            add(f"POST {path}/{verb}", one, f"{verb}_{kind.word}_version", does.format("a version"))
            every = does.format("all versions of a name")
            add(f"POST /{{name}}/{verb}", all_, f"{verb}_{kind.word}", every, response_model=list[view])
    add(f"DELETE {path}", delete, f"delete_{kind.word}", sentences.delete, response_model=None, status_code=204)
    return router


AGAIN = {
    False: (
        "one, or replaces the one of its name. Its secrets are kept encrypted.",
        {200: {"description": "An existing one of this name was replaced."}},
    ),
    True: (
        "a version. Content that equals the newest version is that version.",
        {200: {"description": "The newest version has the same content."}},
    ),
}
"""Descriptions of creation, by whether a kind has versions."""


ARCHIVING = (
    ("archive", "Hides {} from lists. Jobs can still use what is archived.", True),
    ("restore", "Shows {} in lists again.", False),
)
"""The routes of kinds with versions that archive: verb, description, and whether what is named is archived then."""


def _show_all(kind: Kind[Any]) -> Endpoint:
    def show_all(control: ControlOf) -> Any:
        return control.catalogs.service(kind).list()

    return show_all


def _show_versions(kind: Kind[Any]) -> Endpoint:
    def show_versions(control: ControlOf, name: NameOfVersions = None, archived: Archived = False) -> Any:
        return control.catalogs.service(kind).list(name, archived=archived)

    return show_versions


def _show(kind: Kind[Any]) -> Endpoint:
    def show(name: Name, control: ControlOf) -> Any:
        return control.catalogs.service(kind).show(name)

    return show


def _show_version(kind: Kind[Any]) -> Endpoint:
    def show_version(name: Name, version: Version, control: ControlOf) -> Any:
        return control.catalogs.service(kind).show(name, version)

    return show_version


def _delete(kind: Kind[Any]) -> Endpoint:
    def delete(name: Name, control: ControlOf) -> Response:
        control.catalogs.service(kind).delete(name)
        return Response(status_code=204)

    return delete


def _delete_version(kind: Kind[Any]) -> Endpoint:
    def delete_version(name: Name, version: Version, control: ControlOf) -> Response:
        control.catalogs.service(kind).delete(name, version)
        return Response(status_code=204)

    return delete_version


def _archive(kind: Kind[Any], *, is_archived: bool) -> Endpoint:
    def archive(name: Name, control: ControlOf) -> Any:
        return [*control.catalogs.service(kind).set_archived(name, "", is_archived=is_archived)]

    return archive


def _archive_version(kind: Kind[Any], *, is_archived: bool) -> Endpoint:
    def archive_version(name: Name, version: Version, control: ControlOf) -> Any:
        return control.catalogs.service(kind).set_archived(name, version, is_archived=is_archived)[0]

    return archive_version


# --- the kinds ----------------------------------------------------------------------------------------------------
class NewDatastore(NewResource):
    """document: the datastore, as a mapping in the form of its file. source: that file, for messages."""

    check: bool = Field(default=True, description="Contact the store first, and create nothing if it doesn't answer.")


class NewData(NewResource):
    """document: the data, as a mapping in the form of its file. source: that file, for messages.

    is_uploaded: its path was uploaded for this version alone, and is removed if the version is refused.
    """

    is_uploaded: bool = False


class NewModelVersion(NewResource):
    """document: the model, as a mapping in the form of its file. source: that file, for messages.

    is_file: it is one file, at its path. is_trusted: a dangerous pickle in it doesn't refuse it.
    """

    is_file: bool = False
    is_trusted: bool = False


class NewEnvironment(NewResource):
    """document: the environment, as a mapping in the form of its file. source: that file, for messages."""

    texts: EnvironmentFiles = Field(default_factory=EnvironmentFiles)


class NewComponent(NewResource):
    """A component to register.

    document: the content of its file, including the components in files that it names. parts: the files of each step,
    by path; those of a command, under an empty path. source: the file's name, for messages.
    """

    parts: dict[str, StepParts] = Field(default_factory=dict, max_length=MAX_PARTS)


def list_environments(
    control: ControlOf,
    name: Annotated[str | None, Query(description="Only versions of this one, or of its alias.")] = None,
    curated: Annotated[
        bool, Query(description="Those that drumbeat brings, instead of those that users made.")
    ] = False,
    archived: Archived = False,
) -> Any:
    """Every version of every environment that users made, newest first; or the curated ones."""
    return curated_views(name) if curated else control.catalogs.environments.list(name, archived=archived)


BODIES: dict[str, type[NewResource]] = {
    DATASTORE.name: NewDatastore, DATA.name: NewData, ENVIRONMENT.name: NewEnvironment, COMPONENT.name: NewComponent,
    MODEL.name: NewModelVersion,
}  # fmt: skip
"""Request bodies of kinds that are created with more than a document."""
LISTS: dict[str, Endpoint] = {ENVIRONMENT.name: list_environments}
ROUTERS = {kind.name: resource_router(kind, BODIES.get(kind.name, NewResource), LISTS.get(kind.name)) for kind in KINDS}


@ROUTERS[NOTICE_TARGET.name].post("/{name}/test")
def send_test_notice(name: Name, control: ControlOf) -> NoticeTargetView:
    """Delivers a test notice, and answers when it was delivered or refused."""
    control.notice_sender.test(name)
    return control.catalogs.notices.show(name)
