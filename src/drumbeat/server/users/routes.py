"""Tokens of users: list, create, remove. Only owners change them."""

from __future__ import annotations

from fastapi import Response

from drumbeat.model.api.users import NewToken, TokenRequest, TokenView
from drumbeat.server.context import ContextOf, ControlOf
from drumbeat.server.routing import new_router

router = new_router("/api/v1/tokens", tags=["people"])


@router.get("")
def list_tokens(control: ControlOf) -> list[TokenView]:
    """The users who have tokens, with their roles."""
    return [TokenView(one.user, one.role, one.created_at) for one in control.tokens.all()]


@router.post("", status_code=201)
def create_token(body: TokenRequest, control: ControlOf) -> NewToken:
    """Creates a user's token, which is shown only in this answer."""
    return NewToken(body.person, body.role, control.tokens.create(body.person, body.role))


@router.delete("/{person}", status_code=204)
def remove_token(person: str, context: ContextOf) -> Response:
    """Removes a user's token, and ends their sessions of the web page. Their jobs continue."""
    context.control.tokens.remove(person)
    if context.callers:
        context.callers.forget()
    return Response(status_code=204)
