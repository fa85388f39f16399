"""The targets of notices. A secret that came in is never shown."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Response
from pydantic import BaseModel, ConfigDict, Field

from drumbeat.protocol.api.notices import NoticeTargetView
from drumbeat.server.context import ControlOf
from drumbeat.server.routing import new_router

router = new_router("/api/v1/notices", tags=["notices"])

Name = Annotated[str, Path(min_length=1, max_length=255)]


class NewNoticeTarget(BaseModel):
    """document: the target, as a mapping in the form of its file. source: that file, for messages."""

    model_config = ConfigDict(extra="forbid")

    document: dict[str, Any] = Field(repr=False)
    source: str = Field(default="notice", min_length=1, max_length=4096)


@router.post("", status_code=201, responses={200: {"description": "There was one of this name; this is in its place."}})
def create_notice_target(body: NewNoticeTarget, control: ControlOf, response: Response) -> NoticeTargetView:
    """Makes a notice target, in place of one of its name. Its secrets are kept encrypted."""
    made, is_new = control.catalogs.notices.create(body.document, body.source)
    response.status_code = 201 if is_new else 200
    return made


@router.get("")
def list_notice_targets(control: ControlOf) -> list[NoticeTargetView]:
    """The notice targets by name."""
    return control.catalogs.notices.views()


@router.get("/{name}")
def get_notice_target(name: Name, control: ControlOf) -> NoticeTargetView:
    """One notice target."""
    return control.catalogs.notices.view(name)


@router.delete("/{name}", status_code=204)
def delete_notice_target(name: Name, control: ControlOf) -> Response:
    """Forgets a notice target and its secrets. Notices that wait for it are dropped."""
    control.catalogs.notices.delete(name)
    return Response(status_code=204)


@router.post("/{name}/test")
def send_test_notice(name: Name, control: ControlOf) -> NoticeTargetView:
    """Delivers a test notice now, and answers when it was delivered or refused."""
    control.notice_sender.test(name)
    return control.catalogs.notices.view(name)
