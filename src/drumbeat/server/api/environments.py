"""What jobs run in, by name: environments are made, looked at and deleted."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from drumbeat.control.catalog.environments import curated_views
from drumbeat.dialect.environments.texts import Texts
from drumbeat.protocol.plan import PythonEnvironment
from drumbeat.server.api.views import View
from drumbeat.server.room import ControlOf

router = APIRouter(prefix="/api/v1/environments", tags=["environments"])

Name = Annotated[str, Path(min_length=1, max_length=255)]
Version = Annotated[str, Path(min_length=1, max_length=64)]


class TextsBody(BaseModel):
    """The files that an environment names, and those that they take in. main: the one to begin with.

    lines: of a conda file that is written out: the line of each of its requirements in the file it is written in.
    context: digest of the snapshot with the folder of `build`; dockerfile: which of the files is its Dockerfile.
    """

    model_config = ConfigDict(extra="forbid")

    main: str = Field(default="", max_length=4096)
    files: dict[str, str] = Field(default={}, max_length=50)
    lines: list[Annotated[int, Field(ge=0)]] = Field(default=[], max_length=20_000)
    context: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")
    dockerfile: str = Field(default="", max_length=4096)

    def texts(self) -> Texts:
        """The same, as the control room takes them."""
        return Texts(self.main, dict(self.files), tuple(self.lines), self.context, self.dockerfile)


class NewEnvironment(BaseModel):
    """document: the environment, as a mapping in the form of its file. source: that file, for messages."""

    model_config = ConfigDict(extra="forbid")

    document: dict[str, Any]
    source: str = Field(default="environment", min_length=1, max_length=4096)
    texts: TextsBody = Field(default_factory=TextsBody)


class EnvironmentInfo(View):
    """An environment. python: what nodes make for it, null where they run containers of its `image` instead, or where
    it can't be made; `problem` says why.

    version: "" of a curated one; means: the names that mean it. jobs: that named it, newest first. document: as it is
    kept: the environment as written, and its files. same_as: another version of the very same content, "" = none; only
    of one that was just made.
    """

    name: str
    version: str
    python: PythonEnvironment | None
    image: str
    created_at: datetime | None
    curated: bool
    about: str
    means: list[str]
    notes: list[str]
    jobs: list[str]
    document: dict[str, Any]
    problem: str
    same_as: str = ""


@router.post("", status_code=201, responses={200: {"description": "The newest version was the same already."}})
def create_environment(body: NewEnvironment, control: ControlOf, response: Response) -> EnvironmentInfo:
    """Makes a version of an environment. The same content once more is the same version."""
    made, is_new = control.catalogs.environments.create(body.document, body.texts.texts(), body.source)
    response.status_code = 201 if is_new else 200
    return EnvironmentInfo.model_validate(made)


@router.get("")
def list_environments(
    control: ControlOf,
    name: Annotated[str | None, Query(description="Only versions of this one; or what it means.")] = None,
    curated: Annotated[
        bool, Query(description="Those that drumbeat brings, instead of those that people made.")
    ] = False,
) -> list[EnvironmentInfo]:
    """Every version of every environment that people made, newest first; or the curated ones."""
    found = curated_views(name) if curated else control.catalogs.environments.list(name)
    return [EnvironmentInfo.model_validate(one) for one in found]


@router.get("/{name}")
def get_environment(name: Name, control: ControlOf) -> EnvironmentInfo:
    """The newest version of an environment; the curated one of the name where no person made one."""
    return EnvironmentInfo.model_validate(control.catalogs.environments.show(name))


@router.get("/{name}/versions/{version}")
def get_environment_version(name: Name, version: Version, control: ControlOf) -> EnvironmentInfo:
    """One version of an environment."""
    return EnvironmentInfo.model_validate(control.catalogs.environments.show(name, version))


@router.delete("/{name}/versions/{version}", status_code=204)
def delete_environment(name: Name, version: Version, control: ControlOf) -> Response:
    """Forgets a version. Jobs that were submitted with it go on, and what nodes made of it is kept until it is old."""
    control.catalogs.environments.delete(name, version)
    return Response(status_code=204)
