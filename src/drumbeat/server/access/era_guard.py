"""The server's era, by which agents tell it from a copy of its home that has replaced it, or that it has replaced."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drumbeat.model.errors import AwayError
from drumbeat.model.server_era import HEADER, era_number, era_text
from drumbeat.server import errors
from drumbeat.server.access.request_guard import AGENTS, LAST, values

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServerEra:
    """The era of this server. on_replaced: is called with the era of the server that has replaced it."""

    number: int
    key: bytes
    on_replaced: Callable[[int], None]

    def newer(self, text: str) -> int:
        """Returns the later era that an agent has heard from a copy of this home; 0 = it has heard none."""
        number = era_number(text)
        is_signed = hmac.compare_digest(text.encode(errors="replace"), era_text(number, self.key).encode())
        return number if is_signed and number > self.number else 0


class EraGuard:
    """ASGI middleware behind the check of agents' secrets. era: None = agents aren't told of any."""

    def __init__(self, app: ASGIApp, era: ServerEra | None) -> None:
        self.app, self._era = app, era

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        era = self._era
        if era is None or scope["type"] != "http" or not scope["path"].startswith(AGENTS):
            await self.app(scope, receive, send)
            return
        given = values(scope["headers"], HEADER.lower().encode())
        if given and (newer := era.newer(given[0])):
            era.on_replaced(newer)
            refused = AwayError("a server that was restored from a backup of this one has replaced it")
            await errors.response(refused, headers=LAST)(scope, receive, send)
            return
        text = era_text(era.number, era.key).encode()

        async def send_with_era(message: Message) -> None:
            if message["type"] == "http.response.start" and text:
                message = {**message, "headers": [*message["headers"], (HEADER.lower().encode(), text)]}
            await send(message)

        await self.app(scope, receive, send_with_era)
