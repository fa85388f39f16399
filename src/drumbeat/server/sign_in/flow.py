"""The state of a sign-in between the browser's two visits: a signed cookie, so that the server keeps nothing."""

from __future__ import annotations

import base64
import json
import re
import secrets
from dataclasses import asdict, dataclass

from drumbeat.server.access.page_addresses import safe_return
from drumbeat.server.access.signed_tokens import SignedTokens

LIFE_S = 600.0
_PORT = re.compile(r"[1-9]\d{0,4}", re.ASCII)
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)


@dataclass(frozen=True)
class Flow:
    """A sign-in that a browser has begun."""

    state: str
    """What the provider sends back, so that no other page can finish the sign-in."""
    nonce: str
    """What the ID token has, so that no other token can be put in its place."""
    verifier: str
    """The secret of PKCE, so that the code is of use to no other client."""
    to: str
    """The address on the page that the user asked for."""
    port: int = 0
    """The port on which `drumbeat login` waits on the user's machine; 0 = the browser itself signs in."""
    challenge: str = ""
    """The digest of the secret of that `drumbeat login`."""


def new_flow(to: str = "", port: int = 0, challenge: str = "") -> Flow:
    """Returns a new one."""
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    return Flow(state, nonce, verifier, safe_return(to), port, challenge)


def is_port(text: str) -> bool:
    """Whether this is the number of a port that a user's program can listen on."""
    return _PORT.fullmatch(text) is not None and 1024 <= int(text) <= 65535


def is_challenge(text: str) -> bool:
    """Whether this is a SHA-256 in base64url."""
    return _CHALLENGE.fullmatch(text) is not None


class FlowCookies:
    """Signs flows for cookies, and other short-lived texts for clients. signer: with the key of the server's home."""

    def __init__(self, signer: SignedTokens) -> None:
        self._signer = signer

    def seal(self, flow: Flow) -> str:
        """Returns the cookie's value."""
        return self.sign("flow", json.dumps(asdict(flow), separators=(",", ":")), LIFE_S)

    def open(self, value: str) -> Flow | None:
        """Returns the flow of a cookie; None = it isn't this server's, or too old."""
        text = self.read("flow", value)
        return Flow(**json.loads(text)) if text is not None else None

    def sign(self, purpose: str, text: str, life_s: float) -> str:
        """Returns a text that `read` takes back for a while. It isn't encrypted."""
        ends = str(int(self._signer.now() + life_s))
        coded = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
        return f"{ends}.{coded}.{self._signer.sign(f'sign-in {purpose}', ends, text)}"

    def read(self, purpose: str, value: str) -> str | None:
        """Returns the text; None = it was signed elsewhere or for something else, or is too old."""
        ends, _, rest = value.partition(".")
        coded, _, signature = rest.partition(".")
        try:
            text = base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4)).decode()
        except ValueError:
            return None
        is_signed = self._signer.is_signed(signature, f"sign-in {purpose}", ends, text)
        return text if is_signed and self._signer.is_current(ends) else None
