"""Tokens of users, quotas, and what users and experiments use. Only owners change them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path as FilePath
from typing import Annotated

from fastapi import Path, Query, Request, Response

from drumbeat.core.scheduling.quotas import Quota, QuotaKind
from drumbeat.model.api.page import PageLinkView
from drumbeat.model.api.users import (
    AuditLine,
    HalfLife,
    NewToken,
    QuotaLimits,
    QuotaView,
    RoleRequest,
    TokenRequest,
    TokenView,
    UsesView,
    UseView,
)
from drumbeat.model.errors import NotFoundError
from drumbeat.server.access.audit_log import MAX_LINES, read_audit_log
from drumbeat.server.access.page_sessions import INVITATION_S
from drumbeat.server.access.request_guard import PAGE, bearer
from drumbeat.server.context import ContextOf, ControlOf, PrincipalOf, ServerContext, digest_of_caller
from drumbeat.server.routing import new_router
from drumbeat.server.url_paths import rest
from drumbeat.server.users.user_token import TokenKind, UserToken

router = new_router("/api/v1", tags=["people"])

Name = Annotated[str, Path(min_length=1, max_length=255)]


# --- tokens ---------------------------------------------------------------------------------------------------------
@router.get("/tokens")
def list_tokens(control: ControlOf) -> list[TokenView]:
    """The users who have tokens, with their roles, ends and last uses."""
    return [
        TokenView(one.user, one.role, one.created_at, one.id, one.kind, one.expires_at, one.used_at, one.label)
        for one in control.tokens.all()
    ]


@router.post("/tokens", status_code=201)
def create_token(body: TokenRequest, context: ContextOf) -> NewToken:
    """Creates a user's token, which is shown only in this answer, with a link that signs a browser in once."""
    life = None if body.expires_s is None else _life(body.expires_s)
    text, token = context.control.tokens.new(body.person, body.role, TokenKind.TOKEN, life)
    link = _link(context, token)
    return NewToken(body.person, body.role, text, token.expires_at, link.path, link.lifetime_s)


@router.post("/tokens/{person}/links", status_code=201)
def create_token_link(person: str, context: ContextOf) -> PageLinkView:
    """Creates a link that signs a browser in once, as the user of the token that an owner created."""
    return _link(context, context.control.tokens.of(person))


@router.put("/tokens/{person}/role")
def set_role(person: str, body: RoleRequest, context: ContextOf) -> RoleRequest:
    """Gives a user another role, at once, with all their tokens and sessions of the web page."""
    context.control.tokens.set_role(person, body.role)
    _forget(context)
    return body


@router.delete("/tokens/{person}", status_code=204)
def remove_token(person: str, context: ContextOf, id: Annotated[str, Query(max_length=64)] = "") -> Response:
    """Removes a user's tokens, or the one with this id, and ends their sessions of the page. Their jobs continue."""
    context.control.tokens.remove(person, id)
    _forget(context)
    return Response(status_code=204)


@router.delete("/token", status_code=204)
def end_own_token(context: ContextOf, request: Request, principal: PrincipalOf) -> Response:
    """Removes the token of this request, or ends this session of the web page: signs out."""
    if digest := digest_of_caller(context, request):
        context.control.tokens.remove(principal.user, digest)
        _forget(context)
    answer = Response(status_code=204)
    if context.sessions and not bearer(request.scope["headers"]):
        answer.delete_cookie(context.sessions.cookie, path="/", httponly=True, samesite="strict")
    return answer


def _life(seconds: float) -> timedelta:
    try:
        return timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        return timedelta.max


def _link(context: ServerContext, token: UserToken) -> PageLinkView:
    if context.sessions is None:
        raise NotFoundError("this server has no web page")
    return PageLinkView(f"{PAGE}/open/{context.sessions.new_link(token.digest, INVITATION_S)}", INVITATION_S)


def _forget(context: ServerContext) -> None:
    if context.callers:
        context.callers.forget()


@router.get("/audit")
def show_audit_log(
    context: ContextOf,
    since: Annotated[datetime | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LINES)] = MAX_LINES,
) -> list[AuditLine]:
    """The newest lines of the audit log, the oldest of them first. Owners only."""
    return read_audit_log(FilePath(context.folder), since, limit)


# --- quotas ---------------------------------------------------------------------------------------------------------
@router.get("/quotas")
def list_quotas(control: ControlOf) -> list[QuotaView]:
    """Every quota, by kind and name."""
    return [QuotaView(**asdict(one)) for one in control.quotas.all()]


@router.get("/quotas/use")
def show_use(control: ControlOf) -> UsesView:
    """What users and experiments use now, and what counts against users in fair share."""
    uses = (
        UseView(one.kind, one.name, one.slots, one.gpus, one.waiting, round(one.recent, 3))
        for one in control.quotas.uses()
    )
    return UsesView(control.quotas.half_life.total_seconds(), tuple(uses))


@router.put("/quotas/half-life")
def set_half_life(body: HalfLife, control: ControlOf) -> HalfLife:
    """Sets after how long past use counts half."""
    control.quotas.set_half_life(timedelta(seconds=body.half_life_s))
    return body


# An experiment's name may have slashes in it.
@router.put("/quotas/{kind}/" + rest("name"))
def set_quota(kind: QuotaKind, name: Name, body: QuotaLimits, control: ControlOf) -> QuotaView:
    """Sets the limits of a user or an experiment; running jobs continue."""
    quota = Quota(kind, name, body.slots, body.gpus, body.waiting)
    control.quotas.set(quota)
    return QuotaView(**asdict(quota))


@router.delete("/quotas/{kind}/" + rest("name"), status_code=204)
def remove_quota(kind: QuotaKind, name: Name, control: ControlOf) -> Response:
    """Removes a quota."""
    control.quotas.remove(kind, name)
    return Response(status_code=204)
