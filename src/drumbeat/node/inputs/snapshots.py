"""Brings a snapshot from the server to a place on the node."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack

from drumbeat.model.agent import WAITS
from drumbeat.model.errors import StorageError, UnreachableError
from drumbeat.model.failpoints import failpoint
from drumbeat.node.inputs.cache.link_tree import fresh
from drumbeat.node.platform.request_backoff import Backoff
from drumbeat.node.platform.server_link import ServerLink
from drumbeat.node.platform.snapshot_archive import unpack

_TRIES = 8


def bring(link: ServerLink, digest: str, place: str, say: Callable[[str], None]) -> None:
    """Unpacks it there, whole or not at all.

    Goes on through any time without a server, or with one whose own disk refuses; content that is wrong again and again
    is an error.
    """
    backoff, wrong = Backoff(), 0
    os.makedirs(os.path.dirname(place), exist_ok=True)
    while True:
        part = fresh(place)
        try:
            _once(link, digest, part)
        except (UnreachableError, StorageError) as error:
            wrong += isinstance(error, StorageError)
            if wrong == _TRIES:
                raise
            say(f"staging{WAITS}{error.what}")
            backoff.wait()
        else:
            failpoint("agent.unpacked")
            os.rename(part, place)
            failpoint("agent.renamed")
            return


def _once(link: ServerLink, digest: str, part: str) -> None:
    """Raises StorageError for wrong content only."""
    with ExitStack() as answer:
        try:
            stream = answer.enter_context(link.snapshot(digest))
        except StorageError as error:
            raise UnreachableError(error.what, where=error.where, fix=error.fix) from error
        unpack(stream, digest, part)
