"""Routes of the web page: one HTML file for every path below `/ui`, its hashed assets, and the one-time link."""

from __future__ import annotations

import gzip
import html
import json
import re
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Annotated

from anyio import move_on_after, to_thread
from fastapi import Header, Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from drumbeat.model.errors import DrumbeatError
from drumbeat.server.access.page_addresses import safe_return
from drumbeat.server.access.page_sessions import SESSION_LIFETIME_S
from drumbeat.server.access.request_guard import PAGE, PRINTED_BY_MLFLOW, valid_session
from drumbeat.server.context import ContextOf, ServerContext
from drumbeat.server.page.docs import TYPES as DOCS_TYPES
from drumbeat.server.page.docs import read_docs
from drumbeat.server.page.first_requests import FirstRequests, KnownJob, first_requests, job_in, known_job
from drumbeat.server.routing import new_router
from drumbeat.server.url_paths import rest

BUILT = Path(__file__).parent / "built"
"""The output of `npm run build` in `page/`, which is committed."""
HTML, MANIFEST = "index.html", "manifest.json"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src blob:; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy: only files of this server, no inline scripts, and only inline styles with a known digest."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
LOOKUP_S = 0.1
"""How long the HTML waits for the properties of a job, so that a slow store doesn't delay the page."""
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
FRAME_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src '{digest}'; img-src data: blob:; font-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""Content-Security-Policy of the frame that draws a PDF: one script, without origin, session and network."""
USED_LINK = """\
<!doctype html><html lang="en"><title>drumbeat</title>
<h1>This link was used or has expired</h1>
<p>Run <code>drumbeat ui</code> for another one. Each link opens the page once.</p>
"""

router = new_router(include_in_schema=False)


@dataclass(frozen=True)
class BuiltFile:
    """A built file and its headers."""

    content: bytes
    zipped: bytes
    type: str


@cache
def built_files() -> dict[str, BuiltFile]:
    """Reads the page's files, by path, once; together they are smaller than three megabytes."""
    files = [file for file in BUILT.rglob("*") if file.suffix in TYPES]
    return {str(file.relative_to(BUILT)): _read(file) for file in files}


def _read(file: Path) -> BuiltFile:
    content = file.read_bytes()
    return BuiltFile(content, gzip.compress(content, 9, mtime=0), TYPES[file.suffix])


@cache
def page_headers() -> dict[str, str]:
    """Returns the headers of the HTML, whose policy allows its inline styles by their digests."""
    styles = re.findall(rb"<style>(.*?)</style>", built_files()[HTML].content, re.DOTALL)
    digests = "".join(f" 'sha256-{b64encode(sha256(style).digest()).decode()}'" for style in styles)
    policy = POLICY.replace("style-src 'self'", f"style-src 'self'{digests}")
    return {
        **HEADERS,
        "Content-Security-Policy": policy,
        "Cache-Control": "private, no-cache",
        "Vary": "Accept-Encoding",
    }


@cache
def module_files(module: str) -> tuple[str, ...]:
    """Returns the built files of a module and its imports, except the main script."""
    manifest = json.loads((BUILT / MANIFEST).read_text(encoding="utf-8"))
    first = {HTML, *manifest[HTML]["imports"]}
    files: dict[str, None] = {}
    wanted = [module]
    while wanted:
        key = wanted.pop(0)
        if key not in first:
            files[manifest[key]["file"]] = None
            wanted += manifest[key].get("imports", [])
    return tuple(files)


@router.get("/")
@router.get(PAGE)
def go_to_page() -> Response:
    """Redirects to the page, which is below `/ui/`."""
    return RedirectResponse(f"{PAGE}/", 307, headers=HEADERS)


@router.get(PRINTED_BY_MLFLOW)
def go_to_experiments() -> Response:
    """Redirects the link that MLflow's clients print to the screen of experiments."""
    return RedirectResponse(f"{PAGE}/experiments", 307, headers=HEADERS)


@router.get(f"{PAGE}/open/{{code}}")
def open_page(
    code: str, context: ContextOf, request: Request, to: Annotated[str, Query(max_length=4096)] = ""
) -> Response:
    """Turns a one-time link into a session. to: the page's address that it opens."""
    session = context.sessions.open(code) if context.sessions else None
    if session is None or context.sessions is None:
        return HTMLResponse(USED_LINK, 410, headers={**HEADERS, "Cache-Control": "no-store"})
    # A link without an address leads to the one that this browser was asked to show before, which the page remembers.
    place = safe_return(to) if to else f"{PAGE}/#opened"
    answer = RedirectResponse(place, 303, headers={**HEADERS, "Cache-Control": "no-store"})
    answer.set_cookie(
        context.sessions.cookie, session, max_age=SESSION_LIFETIME_S, path="/", httponly=True, samesite="strict",
        secure=request.url.scheme == "https",
    )  # fmt: skip
    return answer


@router.get(f"{PAGE}/ca.pem")
def send_authority(context: ContextOf) -> Response:
    """Returns the certificate of the server's own authority, which clients compare with the fingerprint they know."""
    if context.tls is None or not context.tls.source.ca:
        return Response(status_code=404, headers=HEADERS)
    return Response(context.tls.source.ca, headers=HEADERS, media_type="application/x-pem-file")


@router.get(f"{PAGE}/assets/" + rest("path"))
async def send_asset(path: str, accept_encoding: Annotated[str, Header()] = "") -> Response:
    """Returns an asset of the page. Its name changes with its content."""
    file = built_files().get(f"assets/{path}")
    if file is None:
        return Response(status_code=404, headers=HEADERS)
    headers = {**HEADERS, "Vary": "Accept-Encoding", "Cache-Control": "public, max-age=31536000, immutable"}
    if "gzip" not in accept_encoding:
        return Response(file.content, headers=headers, media_type=file.type)
    return Response(file.zipped, headers={**headers, "Content-Encoding": "gzip"}, media_type=file.type)


@cache
def pdf_frame() -> tuple[bytes, str]:
    """Returns the frame that draws a PDF, compressed, and its policy.

    The script stands in it: a frame without an origin is refused every file of the server.
    """
    script = next(file.content for path, file in built_files().items() if path.startswith("assets/pdf-frame-"))
    digest = f"sha256-{b64encode(sha256(script).digest()).decode()}"
    page = b'<!doctype html><html lang="en"><title>PDF</title><body><script>%s</script></body></html>' % script
    return gzip.compress(page, 6, mtime=0), FRAME_POLICY.format(digest=digest)


@router.get(f"{PAGE}/pdf-frame")
def send_pdf_frame() -> Response:
    """Returns the frame that draws a PDF, which the page hands to it. Every browser takes it compressed."""
    content, policy = pdf_frame()
    headers = {**HEADERS, "Content-Security-Policy": policy, "Cache-Control": "private, max-age=600"}
    return HTMLResponse(content, headers={**headers, "Content-Encoding": "gzip"})


@router.get(f"{PAGE}/docs-files/" + rest("path"))
def send_docs_file(path: str) -> Response:
    """Returns a page of the documentation as markdown, or one of its pictures."""
    content = read_docs(path)
    if content is None:
        return Response(status_code=404, headers=HEADERS)
    headers = {**HEADERS, "Cache-Control": "no-cache"}
    return Response(content, headers=headers, media_type=DOCS_TYPES[PurePosixPath(path).suffix])


@router.get(f"{PAGE}/" + rest("path"))
async def send_page(request: Request, context: ContextOf, accept_encoding: Annotated[str, Header()] = "") -> Response:
    """Returns the page's HTML for every path, with preloads for the screen of the path."""
    place = request.scope["raw_path"].decode("latin-1").removeprefix(PAGE)
    job = None
    with move_on_after(LOOKUP_S), suppress(DrumbeatError):
        job = await _job_for(request, context, job_in(place))
    page, headers = built_files()[HTML], page_headers()
    content = page.content.replace(b"</head>", b"%s</head>" % _links(first_requests(place, request.url.query, job)), 1)
    if "gzip" not in accept_encoding:
        return Response(content, headers=headers, media_type=page.type)
    zipped = gzip.compress(content, 6, mtime=0)
    return Response(zipped, headers={**headers, "Content-Encoding": "gzip"}, media_type=page.type)


async def _job_for(request: Request, context: ServerContext, name: str) -> KnownJob | None:
    """Returns the properties of a job for a caller who may read it. Raises DrumbeatError."""
    session = valid_session(request.scope["headers"], context.sessions) if name and context.sessions else ""
    if not session or context.sessions is None or context.callers is None:
        return None
    if await context.callers.for_digest(context.sessions.token_digest(session)) is None:
        return None
    return await to_thread.run_sync(known_job, context.control, name, request.url.query, abandon_on_cancel=True)


def _links(first: FirstRequests) -> bytes:
    """Returns HTML elements with which a browser preloads these."""
    files = module_files(first.module) if first.module else ()
    modules = [f'<link rel="modulepreload" crossorigin href="{PAGE}/{file}">' for file in files]
    answers = [f'<link rel="preload" as="fetch" crossorigin href="{html.escape(one)}">' for one in first.answers]
    return "\n    ".join(["", *modules, *answers, ""]).encode()
