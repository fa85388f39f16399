"""Routes for sessions of the web page: one-time links, and tokens for actions."""

from __future__ import annotations

from fastapi import Request

from drumbeat.model.api.page import PageLinkView, PageSessionView
from drumbeat.model.errors import NotFoundError
from drumbeat.server.access.page_sessions import LINK_LIFETIME_S
from drumbeat.server.access.request_guard import PAGE, valid_session
from drumbeat.server.context import ContextOf, PrincipalOf, digest_of_caller
from drumbeat.server.routing import new_router

router = new_router("/api/v1/page", tags=["page"])

NO_SESSION = "the request carries no session of the web page"


@router.post("/links", status_code=201)
def create_page_link(context: ContextOf, request: Request) -> PageLinkView:
    """Creates a link that opens the web page once. The page gets a cookie, and needs no token."""
    if context.sessions is None:
        raise NotFoundError(NO_SESSION)
    link = context.sessions.new_link(digest_of_caller(context, request))
    return PageLinkView(f"{PAGE}/open/{link}", LINK_LIFETIME_S)


@router.get("/session")
def show_page_session(context: ContextOf, request: Request, principal: PrincipalOf) -> PageSessionView:
    """Returns the token that the page sends with actions in the header `Drumbeat-Action`, its user, and its server."""
    sessions = context.sessions
    given = valid_session(request.scope["headers"], sessions) if sessions else ""
    if sessions is None or not given:
        raise NotFoundError(NO_SESSION, fix="Open the page: drumbeat ui")
    return PageSessionView(
        sessions.action_token(given), principal.user, principal.role,
        context.identity.host, context.identity.version, context.idle_stop_s,
    )  # fmt: skip
