"""The web page's files: one HTML file for every address below `/ui`, its hashed assets, and the one-time link."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

from fastapi import Header
from starlette.responses import HTMLResponse, RedirectResponse, Response

from drumbeat.server.access.page_sessions import SESSION_LIFETIME_S
from drumbeat.server.access.request_guard import PAGE
from drumbeat.server.context import ContextOf
from drumbeat.server.routing import new_router
from drumbeat.server.url_paths import rest

BUILT = Path(__file__).parent / "built"
"""What `npm run build` in `page/` writes; it is committed."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy: only files of this server, and no script or style within HTML."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
USED_LINK = """\
<!doctype html><html lang="en"><title>drumbeat</title>
<h1>This link was used, or is too old</h1>
<p>Run <code>drumbeat ui</code> for another one. Each link opens the page once.</p>
"""

router = new_router(include_in_schema=False)


@dataclass(frozen=True)
class BuiltFile:
    """A built file as it is sent."""

    content: bytes
    zipped: bytes
    type: str


@cache
def built_files() -> dict[str, BuiltFile]:
    """The page's files by their path, read once: together they are below a megabyte."""
    files = [file for file in BUILT.rglob("*") if file.suffix in TYPES]
    return {str(file.relative_to(BUILT)): _read(file) for file in files}


def _read(file: Path) -> BuiltFile:
    content = file.read_bytes()
    return BuiltFile(content, gzip.compress(content, 9, mtime=0), TYPES[file.suffix])


@router.get("/")
@router.get(PAGE)
def go_to_page() -> Response:
    """The page lies below `/ui/`."""
    return RedirectResponse(f"{PAGE}/", 307, headers=HEADERS)


@router.get(f"{PAGE}/open/{{code}}")
def open_page(code: str, context: ContextOf) -> Response:
    """Turns a one-time link into a session."""
    session = context.sessions.open(code) if context.sessions else None
    if session is None or context.sessions is None:
        return HTMLResponse(USED_LINK, 410, headers={**HEADERS, "Cache-Control": "no-store"})
    answer = RedirectResponse(f"{PAGE}/", 303, headers={**HEADERS, "Cache-Control": "no-store"})
    answer.set_cookie(
        context.sessions.cookie, session, max_age=SESSION_LIFETIME_S, path="/", httponly=True, samesite="strict"
    )
    return answer


@router.get(f"{PAGE}/" + rest("path"))
def send_page(path: str, accept_encoding: Annotated[str, Header()] = "") -> Response:
    """A file of the page; the page itself for every other address, which its script reads."""
    file = built_files().get(path)
    is_hashed = file is not None and path.startswith("assets/")
    if file is None and path.startswith("assets/"):
        return Response(status_code=404, headers=HEADERS)
    file = file or built_files()["index.html"]
    headers = {**HEADERS, "Vary": "Accept-Encoding"}
    headers["Cache-Control"] = "public, max-age=31536000, immutable" if is_hashed else "no-cache"
    if "gzip" not in accept_encoding:
        return Response(file.content, headers=headers, media_type=file.type)
    return Response(file.zipped, headers={**headers, "Content-Encoding": "gzip"}, media_type=file.type)
