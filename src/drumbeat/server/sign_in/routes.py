"""Routes by which users sign in: for browsers, for `drumbeat login`, and for the provider's logouts.

None needs a token. What a browser brings back is bound to it by a signed cookie; `drumbeat login` proves itself by a
secret whose digest it gave first; a logout is signed by the provider.
"""

from __future__ import annotations

import html
import secrets
from typing import Annotated
from urllib.parse import parse_qs, urlencode

from anyio import CapacityLimiter
from fastapi import Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from drumbeat.model.errors import DrumbeatError, NotFoundError, RefusedError, UnauthorizedError
from drumbeat.model.sign_in_codes import check_code
from drumbeat.server import errors
from drumbeat.server.access.page_sessions import SESSION_LIFETIME_S
from drumbeat.server.access.request_guard import PAGE, SIGN_IN, cookies
from drumbeat.server.access.signed_tokens import SignedTokens
from drumbeat.server.context import ContextOf, ServerContext, away
from drumbeat.server.routing import new_router
from drumbeat.server.sign_in.flow import LIFE_S, Flow, FlowCookies, is_challenge, is_port, new_flow
from drumbeat.server.sign_in.provider_answer import ProviderAnswer, SignInPendingError, printable
from drumbeat.server.sign_in.sign_in import SignedIn, SignIn
from drumbeat.server.users.user_token import TokenKind

router = new_router(include_in_schema=False)

CALLBACK = f"{SIGN_IN}/callback"
COOKIE = "drumbeat-sign-in"
MAX_AT_PROVIDER = 16
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_BROWSERS = ("Firefox", "Edg", "OPR", "Chrome", "Safari")
"""Words of a browser's User-Agent, the more telling ones first."""
_limiter = CapacityLimiter(MAX_AT_PROVIDER)
"""Limits requests that wait for the provider, so that a slow one doesn't occupy all threads."""

Text = Annotated[str, Query(max_length=4096)]


class TokenBody(BaseModel):
    """A request of `drumbeat login`: by the code of a browser and its secret, or by the handle of a device flow."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    code: str = Field(default="", max_length=200)
    verifier: str = Field(default="", max_length=200)
    handle: str = Field(default="", max_length=20_000)
    label: str = Field(default="", max_length=200)


@router.get(f"{SIGN_IN}/provider")
async def show_provider(context: ContextOf, device: bool = False) -> Response:
    """Returns the provider's name, "" = there is none. device: says also whether it has the device flow."""
    sign_in = context.sign_in
    if sign_in is None:
        return _json({"name": ""})
    shown: dict[str, object] = {"name": sign_in.settings.title}
    if device:
        shown["device"] = await away(lambda: sign_in.provider.has_device_flow, _limiter)
    return _json(shown)


# --- browsers -------------------------------------------------------------------------------------------------------
@router.get(SIGN_IN)
async def begin(context: ContextOf, request: Request, to: Text = "", port: Text = "", challenge: Text = "") -> Response:
    """Sends the browser to the provider. to: the page's address to go back to. port, challenge: of `drumbeat login`."""
    try:
        sign_in = _sign_in(context)
        if (port or challenge) and not (is_port(port) and is_challenge(challenge)):
            raise RefusedError("this isn't an address that `drumbeat login` has made")
        flow = new_flow(to, int(port or 0), challenge)
        redirect = _own_url(context, request) + CALLBACK
        url = await away(
            lambda: sign_in.provider.authorization_url(redirect, flow.state, flow.nonce, flow.verifier), _limiter
        )
    except DrumbeatError as error:
        return _page(error)
    answer = RedirectResponse(url, 303, headers=_HEADERS)
    # Lax, since the browser comes back from another site; only to this path.
    answer.set_cookie(
        COOKIE, _cookies(context).seal(flow), max_age=int(LIFE_S), path=SIGN_IN, httponly=True, samesite="lax",
        secure=_is_secure(context, request),
    )  # fmt: skip
    return answer


@router.get(CALLBACK)
async def finish(
    context: ContextOf, request: Request, code: Text = "", state: Text = "", error: Text = "",
    error_description: Text = "", iss: Text = "",
) -> Response:  # fmt: skip
    """Takes the browser back from the provider: signs it in, or the `drumbeat login` that sent it."""
    try:
        answer = await _finished(context, request, _Callback(code, state, error, error_description, iss))
    except DrumbeatError as problem:
        answer = _page(problem)
    answer.delete_cookie(COOKIE, path=SIGN_IN, httponly=True, samesite="lax")
    return answer


class _Callback:
    def __init__(self, code: str, state: str, error: str, description: str, issuer: str) -> None:
        self.code, self.state, self.issuer = code, state, issuer
        self.error = printable(f"{error}: {description}" if description else error)


async def _finished(context: ServerContext, request: Request, given: _Callback) -> Response:
    sign_in, flow = _sign_in(context), _flow(context, request, given.state)
    if given.issuer and given.issuer != sign_in.settings.issuer:  # RFC 9207: another provider's answer.
        raise RefusedError("this answer is another provider's", fix="Sign in again.")
    if given.error or not given.code:
        what = f"{sign_in.settings.title} didn't sign you in: {given.error or 'it sent no code'}"
        raise UnauthorizedError(what, fix="Sign in again.")
    redirect = _own_url(context, request) + CALLBACK

    def redeem() -> ProviderAnswer:
        return sign_in.provider.redeem(given.code, redirect, flow.verifier, flow.nonce)

    answer = await away(redeem, _limiter)
    if flow.port:
        return _command_line_page(flow, await away(lambda: sign_in.new_code(answer, flow.challenge)))
    label = next((one for one in _BROWSERS if one in request.headers.get("user-agent", "")), "browser")
    signed_in = await away(lambda: sign_in.finish(answer, TokenKind.PAGE, label), _limiter)
    return _with_session(context, request, flow, signed_in)


def _with_session(context: ServerContext, request: Request, flow: Flow, signed_in: SignedIn) -> Response:
    if context.sessions is None:
        raise NotFoundError("this server has no web page")
    answer = RedirectResponse(flow.to, 303, headers=_HEADERS)
    answer.set_cookie(
        context.sessions.cookie, context.sessions.sign_in(signed_in.token.digest), max_age=SESSION_LIFETIME_S, path="/",
        httponly=True, samesite="strict", secure=_is_secure(context, request),
    )  # fmt: skip
    return answer


def _flow(context: ServerContext, request: Request, state: str) -> Flow:
    """Returns what this browser began. Raises UnauthorizedError for an answer to what it didn't begin."""
    given = cookies(request.scope["headers"], COOKIE)
    flow = _cookies(context).open(given[0]) if len(given) == 1 else None
    if flow is None or not secrets.compare_digest(flow.state.encode(), state.encode()):
        what = "this browser didn't begin this sign-in here, or more than ten minutes ago"
        raise UnauthorizedError(what, fix="Sign in again.")
    return flow


# --- `drumbeat login` -----------------------------------------------------------------------------------------------
@router.post(f"{SIGN_IN}/device")
async def begin_device(context: ContextOf) -> Response:
    """Begins a device flow: returns what the user opens and types, and a handle for `/token`."""
    sign_in = _sign_in(context)
    start = await away(sign_in.provider.start_device, _limiter)
    handle = _cookies(context).sign("device", start.device_code, start.expires_s)
    return _json(
        {
            "handle": handle, "user_code": start.user_code, "url": start.url, "url_with_code": start.url_with_code,
            "expires_s": start.expires_s, "interval_s": start.interval_s,
        }
    )  # fmt: skip


@router.post(f"{SIGN_IN}/token")
async def make_token(body: TokenBody, context: ContextOf) -> Response:
    """Returns the token of a `drumbeat login`; 202 while its user hasn't signed in at the provider yet."""
    sign_in = _sign_in(context)
    if not body.handle:
        made = await away(lambda: sign_in.redeem_code(body.code, body.verifier, body.label), _limiter)
        return _token(made)
    device_code = _cookies(context).read("device", body.handle)
    if device_code is None:
        raise UnauthorizedError("the sign-in has expired, or wasn't begun here", fix="Sign in again.")

    def poll() -> SignedIn:
        return sign_in.finish(sign_in.provider.poll_device(device_code), TokenKind.LOGIN, body.label, by_device=True)

    try:
        return _token(await away(poll, _limiter))
    except SignInPendingError as pending:
        return _json({"slow_down": pending.slow_down}, 202)


def _token(made: SignedIn) -> Response:
    ends = made.token.expires_at
    return _json(
        {
            "token": made.text, "person": made.token.user, "role": made.token.role,
            "expires_at": ends.isoformat() if ends else None,
        }
    )  # fmt: skip


def _command_line_page(flow: Flow, code: str) -> Response:
    """Returns the page that hands the sign-in to the command line, once the user has compared the code."""
    url = html.escape(f"http://127.0.0.1:{flow.port}/?{urlencode({'code': code})}")
    return HTMLResponse(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>drumbeat login</title>'
        "<h1>Sign in the command line?</h1>"
        f"<p>Your terminal shows a code. Go on only if it is <strong>{check_code(flow.challenge)}</strong>.</p>"
        f'<p><a href="{url}">Sign in <code>drumbeat login</code> on this machine</a></p></html>',
        headers=_HEADERS,
    )


# --- the provider ---------------------------------------------------------------------------------------------------
@router.post(f"{SIGN_IN}/back-channel")
async def log_out(context: ContextOf, request: Request) -> Response:
    """Ends the sessions that the provider says have ended (OpenID Connect Back-Channel Logout 1.0)."""
    sign_in = _sign_in(context)
    fields = parse_qs((await request.body()).decode("utf-8", "replace"))
    tokens = fields.get("logout_token", [])
    if len(tokens) != 1:
        raise RefusedError("the request has no logout_token")
    try:
        await away(lambda: sign_in.log_out(sign_in.provider.read_logout_token(tokens[0])), _limiter)
    except RefusedError as error:
        return errors.response(error, 400)
    return Response(status_code=200, headers=_HEADERS)


# --- parts ----------------------------------------------------------------------------------------------------------
def _sign_in(context: ServerContext) -> SignIn:
    if context.sign_in is None:
        fix = "Sign in by a token or a link from an owner of the server: drumbeat token create NAME"
        raise NotFoundError("this server has no identity provider", fix=fix)
    return context.sign_in


def _cookies(context: ServerContext) -> FlowCookies:
    signer: SignedTokens | None = context.azure_tokens
    if signer is None:
        raise NotFoundError("this server has no key")
    return FlowCookies(signer)


def _own_url(context: ServerContext, request: Request) -> str:
    """Returns the server's address in this browser, by a `Host` that `Guard` has admitted."""
    configured = context.sign_in.settings.url if context.sign_in else ""
    return configured or f"{request.url.scheme}://{request.headers.get('host', '')}"


def _is_secure(context: ServerContext, request: Request) -> bool:
    return _own_url(context, request).startswith("https:")


def _json(content: object, status: int = 200) -> Response:
    return JSONResponse(content, status, headers=_HEADERS)


def _page(error: DrumbeatError) -> Response:
    """Returns a page that says why the sign-in failed."""
    fix = f"<p>{html.escape(error.fix)}</p>" if error.fix else ""
    return HTMLResponse(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>drumbeat: not signed in</title>'
        f"<h1>You aren't signed in</h1><p>{html.escape(error.what)}</p>{fix}"
        f'<p><a href="{PAGE}/">Back to drumbeat</a></p></html>',
        errors.http_status(error),
        headers=_HEADERS,
    )
