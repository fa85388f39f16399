"""Responses of a standby server, which name the active server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import HTMLResponse, RedirectResponse, Response

from drumbeat.model.errors import StandbyError
from drumbeat.server import errors
from drumbeat.server.access.request_guard import HEALTH, LAST, is_page

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

OF_EACH_SERVER = (*HEALTH, "/metrics", "/api/v1/version", "/api/v1/status", "/api/v1/stop")
"""Paths that every server answers for itself, active or not."""
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="2">
<title>drumbeat: standing by</title>
<p>This drumbeat server stands by. The active server can't be reached now; this page looks again every two seconds.</p>
</html>
"""


class StandbyGuard:
    """ASGI middleware that answers in place of the app while another server is active.

    active_url: returns the URL of the active server, "" = unknown.
    """

    def __init__(self, app: ASGIApp, is_active: Callable[[], bool], active_url: Callable[[], str]) -> None:
        self.app, self._is_active, self._active_url = app, is_active, active_url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_own = scope["type"] != "http" or scope["path"] in OF_EACH_SERVER
        if is_own or self._is_active():
            await self.app(scope, receive, send)
        else:
            await self._answer(scope)(scope, receive, send)

    def _answer(self, scope: Scope) -> Response:
        url = self._active_url()
        if not is_page(scope):
            return errors.response(refusal(url), headers=LAST)
        if url:
            return RedirectResponse(f"{url}{scope['path']}", status_code=307)
        return HTMLResponse(_PAGE, status_code=503)


def refusal(url: str) -> StandbyError:
    """Returns the error that names the active server. url: where clients call it, "" = unknown."""
    where = f"at {url}" if url else "not known yet"
    return StandbyError(f"this server stands by; the active server is {where}", fix="Ask that server, or try again.")
