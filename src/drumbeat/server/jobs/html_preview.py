"""HTML that jobs have written, as an answer for a frame of the web page: nothing of it runs, and nothing is fetched."""

from __future__ import annotations

import codecs
import re

from fastapi import Response

from drumbeat.model.errors import RefusedError
from drumbeat.server.file_bodies import ServedFile

MAX_BYTES = 8 << 20
POLICY = "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'; frame-ancestors 'self'"
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-DNS-Prefetch-Control": "off",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_AHEAD = re.compile(r"<(?=link|meta|base|i?frame|object|embed|area|a[\s/>])", re.IGNORECASE)
"""Elements by which Chromium connects ahead of a request, even of one that the policy forbids, links among them.

They can be written in one way only: the answer's encoding is fixed, and names of elements have no escapes.
"""
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""Marks by which browsers take a file as UTF-16, whatever the answer's header says."""


def response(file: ServedFile) -> Response:
    """Returns the file as HTML. Raises RefusedError for a larger one."""
    if file.size > MAX_BYTES:
        what = f"the file has {file.size / (1 << 20):,.1f} MiB, and a preview at most {MAX_BYTES >> 20}"
        raise RefusedError(what, where=file.path.name, fix="Download it.")
    content = file.path.read_bytes()
    text = content.decode("utf-16" if content.startswith(_UTF_16) else "utf-8", "replace")
    return Response(codecs.BOM_UTF8 + _AHEAD.sub("<x-", text).encode(), headers=HEADERS, media_type="text/html")
