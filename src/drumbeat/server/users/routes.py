"""Tokens of users, quotas, and what users and experiments use. Only owners change them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Annotated

from fastapi import Path, Response

from drumbeat.core.scheduling.quotas import Quota, QuotaKind
from drumbeat.model.api.users import (
    HalfLife,
    NewToken,
    QuotaLimits,
    QuotaView,
    TokenRequest,
    TokenView,
    UsesView,
    UseView,
)
from drumbeat.server.context import ContextOf, ControlOf
from drumbeat.server.routing import new_router
from drumbeat.server.url_paths import rest

router = new_router("/api/v1", tags=["people"])

Name = Annotated[str, Path(min_length=1, max_length=255)]


# --- tokens ---------------------------------------------------------------------------------------------------------
@router.get("/tokens")
def list_tokens(control: ControlOf) -> list[TokenView]:
    """The users who have tokens, with their roles."""
    return [TokenView(one.user, one.role, one.created_at) for one in control.tokens.all()]


@router.post("/tokens", status_code=201)
def create_token(body: TokenRequest, control: ControlOf) -> NewToken:
    """Creates a user's token, which is shown only in this answer."""
    return NewToken(body.person, body.role, control.tokens.create(body.person, body.role))


@router.delete("/tokens/{person}", status_code=204)
def remove_token(person: str, context: ContextOf) -> Response:
    """Removes a user's token, and ends their sessions of the web page. Their jobs continue."""
    context.control.tokens.remove(person)
    if context.callers:
        context.callers.forget()
    return Response(status_code=204)


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
