"""What Azure's clients call: the checks at the door, the addresses without a token, and the routes behind them."""

from __future__ import annotations

import base64
import binascii
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from drumbeat.model.errors import DrumbeatError, ForbiddenError, NotFoundError, RefusedError, UnauthorizedError
from drumbeat.model.principal import Principal, Role
from drumbeat.server.access.callers import Callers
from drumbeat.server.access.request_guard import LAST, Guard, bearer, values
from drumbeat.server.access.request_sizes import TrafficMeter
from drumbeat.server.access.signed_tokens import SignedTokens
from drumbeat.server.access.standby_guard import StandbyGuard
from drumbeat.server.azure import blobs, errors, history, mlflow, sas
from drumbeat.server.azure.call import AzureCall
from drumbeat.server.azure.catalog import AzureCatalog
from drumbeat.server.azure.datastores import STORAGE_SUFFIX
from drumbeat.server.azure.route_table import MLFLOW, find
from drumbeat.server.azure.translation import words
from drumbeat.server.azure.translation.arm_ids import Workspace
from drumbeat.server.azure.workspaces import TENANT
from drumbeat.server.context import ServerContext, away
from drumbeat.server.json_bodies import read_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

METADATA, IDENTITY, DISCOVERY, LOGS = "/metadata/endpoints", "/identity", "/discovery", "/azure-logs/"
IDENTITY_HEADER = b"x-identity-header"
PORTAL = "https://portal.azure.drumbeat"
"""The client makes the audience of tokens of what follows the second dot."""
TOKEN_LIFE_S = 3600 * 12
TOKEN = 'Set the variables again: eval "$(drumbeat azure env)"'  # noqa: S105 - a sentence
JWT_PARTS = 3


def azure_app(context: ServerContext, tokens: SignedTokens, hosts: Callable[[], frozenset[str]]) -> ASGIApp:
    """Returns the app behind the listener for Azure's clients. hosts: returns the accepted `Host` headers."""
    assert context.callers is not None  # noqa: S101 - the app of the server has set it
    app: ASGIApp = AzureApp(context, tokens)
    app = TrafficMeter(app, traffic=context.traffic)
    app = StandbyGuard(app, context.is_active, context.active_url)
    return AzureGuard(app, context=context, callers=context.callers, tokens=tokens, current_hosts=hosts)


class AzureGuard(Guard):
    """The guard before Azure's API: tokens in the form of its clients, signatures for blobs and logs, roles as ever."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        context: ServerContext,
        callers: Callers,
        tokens: SignedTokens,
        current_hosts: Callable[[], frozenset[str]],
    ) -> None:
        def require_own(principal: Principal, job: str) -> None:
            context.control.job_users.require_own(principal, job)

        def user_of(job: str) -> str:
            return context.control.job_users.user_of(job)

        super().__init__(
            app, callers=callers, hosts=frozenset(), check=_no_agents, require_own=require_own, user_of=user_of
        )
        self._tokens, self._current_hosts = tokens, current_hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.hosts = self._current_hosts()
        await super().__call__(scope, receive, send)

    def refused(self, scope: Scope, error: DrumbeatError) -> Response:
        if scope["path"].startswith(blobs.BLOBS):
            return errors.blob_response(errors.as_blob_error(error), has_body=scope.get("method") != "HEAD")
        return errors.response(error, dict(LAST))

    async def principal(self, scope: Scope) -> Principal | None:
        path = scope["path"]
        if refusal := self.refusal_of_origin(scope):
            raise refusal
        if path in (METADATA, DISCOVERY):
            return None
        if path.startswith(LOGS):
            job, name = log_of(path)
            if not sas.is_log_open(self._tokens, job, name, query_of(scope)):
                raise ForbiddenError("the signature of this log is wrong, or has expired", fix="Follow the job again.")
            return None
        if path.startswith(blobs.BLOBS):
            return await self._blob_caller(scope)
        return await self.admitted(scope, await self.caller(scope))

    async def caller(self, scope: Scope) -> Principal:
        if scope["path"] == IDENTITY:
            given = values(scope["headers"], IDENTITY_HEADER)
            token = given[0] if len(given) == 1 else ""
        else:
            token = opaque(bearer(scope["headers"]))
        if not token:
            raise UnauthorizedError("a token is needed", fix=TOKEN)
        read = self._tokens.read(token)
        digest = read[0] if read else self.callers.token_digest(token)
        principal = await self.callers.for_digest(digest)
        if principal is None:
            raise UnauthorizedError("that token is wrong, has expired, or was removed", fix=TOKEN)
        scope.setdefault("state", {})["digest"] = digest
        return principal

    async def _blob_caller(self, scope: Scope) -> Principal:
        """Returns whose signature opens a container; each change needs the right to it, and that its person has it."""
        match = blobs.PATH.fullmatch(scope["path"])
        opened = sas.read_blob_query(self._tokens, match["container"], query_of(scope)) if match else None
        if opened is None:
            raise ForbiddenError("the signature of this container is wrong, or has expired")
        principal = await self.callers.for_digest(opened.digest)
        if principal is None:
            raise ForbiddenError("the token of the person whose signature this is was removed")
        scope.setdefault("state", {})["may_write"] = opened.may_write and principal.role is not Role.READER
        return principal


def _no_agents(_job: str, _attempt: int, _node: int, _secret: str) -> None:
    raise NotFoundError("there is nothing at this address")


def log_of(path: str) -> tuple[str, str]:
    """Returns the job and the log of a path."""
    job, _, name = path.removeprefix(LOGS).partition("/")
    return job, name


def query_of(scope: Scope) -> dict[str, str]:
    """Returns the query of a request; of a key that stands there twice, nothing."""
    read = parse_qs(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
    return {key: entries[0] for key, entries in read.items() if len(entries) == 1}


# --- tokens ----------------------------------------------------------------------------------------------------------
def jwt(token: str, audience: str, ends: int) -> str:
    """Returns a token in the form that clients read their tenant and audience from. They don't check a signature."""
    head = {"alg": "none", "typ": "JWT"}
    claims = {"aud": audience, "tid": TENANT, "oid": TENANT, "exp": ends, "upn": "drumbeat"}
    return ".".join((_part(json.dumps(head).encode()), _part(json.dumps(claims).encode()), _part(token.encode())))


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def opaque(given: str) -> str:
    """Returns the server's own token in one in the form of a JWT; others as they are."""
    parts = given.split(".")
    if len(parts) != JWT_PARTS:
        return given
    try:
        head = words.mapping(json.loads(_decoded(parts[0])))
        return _decoded(parts[2]).decode() if head.get("alg") == "none" else given
    except (ValueError, binascii.Error):
        return given


def _decoded(part: str) -> bytes:
    return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)


# --- the app ---------------------------------------------------------------------------------------------------------
class AzureApp:
    """ASGI: answers requests that the guard has admitted."""

    def __init__(self, context: ServerContext, tokens: SignedTokens) -> None:
        self.context, self.tokens = context, tokens
        self.catalog = AzureCatalog(lambda: context.control)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive, send)
        await (await self._response(request))(scope, receive, send)

    async def _response(self, request: Request) -> Response:
        try:
            return await self._answer(request)
        except ClientDisconnect:
            return Response(status_code=400)
        except DrumbeatError as error:
            return self._refused(request, error)
        except HTTPException as error:
            refused = self._refused(request, RefusedError(str(error.detail)))
            refused.status_code = error.status_code
            return refused
        except Exception as error:  # noqa: BLE001 - the client must read of a defect in its own form
            return self._refused(request, errors.bug(error, f"{request.method} {request.url.path[:200]}"))

    @staticmethod
    def _refused(request: Request, error: DrumbeatError) -> Response:
        if request.url.path.startswith(blobs.BLOBS):
            return errors.blob_response(errors.as_blob_error(error), has_body=request.method != "HEAD")
        return errors.response(error)

    async def _answer(self, request: Request) -> Response:
        path, base = request.scope["path"], f"https://{request.headers['host']}"
        if request.method == "GET" and path == METADATA:
            return JSONResponse([metadata(base)])
        if request.method == "GET" and path == DISCOVERY:
            return JSONResponse(history.discovery(base))
        if request.method == "GET" and path.startswith(LOGS):
            text = await away(lambda: history.log_text(self.context.control, *log_of(path)))
            return PlainTextResponse(text, headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"})
        if request.method == "GET" and path == IDENTITY:
            return self._identity(request)
        if match := blobs.PATH.fullmatch(path):
            place = blobs.BlobPlace(
                self.context.control, self.catalog, Path(self.context.folder, "azure"), match["container"],
                match["name"] or "", request.state.may_write,
            )  # fmt: skip
            return await blobs.answer(request, place)
        return await self._api(request, base)

    async def _api(self, request: Request, base: str) -> Response:
        if "principal" not in request.scope.get("state", {}):
            raise NotFoundError("there is nothing at this address")
        if asked := MLFLOW.fullmatch(request.scope["path"]):
            workspace = Workspace(asked["subscription"], asked["group"], asked["workspace"])
            return await mlflow.answer(request, self.context, request.state.principal, workspace, asked["path"])
        match = find(request.method, request.scope["path"])
        body = await request.body()
        table = await read_json(body, lambda read: read, "\ufffd") if body.strip() else {}
        workspace = Workspace(match.parts["subscription"], match.parts["group"], match.parts["workspace"])
        call = AzureCall(
            self.context, self.tokens, self.catalog, request.state.principal, request.state.digest, base, workspace,
            match.parts, query_of(request.scope), table, request.headers,
        )  # fmt: skip
        answer = await away(lambda: match.handler(call))
        if answer.body is None:
            return Response(status_code=answer.status, headers=dict(answer.headers))
        return JSONResponse(answer.body, answer.status, dict(answer.headers))

    def _identity(self, request: Request) -> Response:
        """The protocol of Azure App Service: a token for the one in the header, until the same end."""
        token = request.headers.get(IDENTITY_HEADER.decode(), "")
        resource = request.query_params.get("resource", "")[:300]
        read = self.tokens.read(token)
        ends = min(read[1] if read else 1 << 40, int(self.tokens.now()) + TOKEN_LIFE_S)
        body = {
            "access_token": jwt(token, resource.removesuffix("/.default"), ends), "expires_on": str(ends),
            "resource": resource, "token_type": "Bearer", "client_id": TENANT,
        }  # fmt: skip
        return JSONResponse(body, headers={"Cache-Control": "no-store"})


def metadata(base: str) -> dict[str, Any]:
    """Returns the cloud that this server is to its clients, who ask for it before almost every call."""
    return {
        "name": "drumbeat", "portal": PORTAL, "resourceManager": f"{base}/",
        "authentication": {
            "loginEndpoint": f"{base}/login", "audiences": [f"{base}/"], "tenant": "common",
            "identityProvider": "AAD",
        },
        "suffixes": {"storage": STORAGE_SUFFIX, "acrLoginServer": "azurecr.drumbeat.invalid"},
        "media": base, "graph": base, "graphAudience": f"{base}/", "batch": base, "sqlManagement": base,
        "gallery": base, "activeDirectoryDataLake": base, "vmImageAliasDoc": base,
    }  # fmt: skip
