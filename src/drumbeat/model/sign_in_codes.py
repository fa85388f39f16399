"""What `drumbeat login` and the server must agree on when a browser signs the command in."""

from __future__ import annotations

import base64
import hashlib

_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
"""Without vowels, so that no code is a word."""


def challenge_of(verifier: str) -> str:
    """Returns the digest of a secret, in base64url (S256 of RFC 7636)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


def check_code(challenge: str) -> str:
    """Returns the short code that the terminal and the browser show, so that the user knows which terminal it is."""
    digest = hashlib.sha256(f"drumbeat login {challenge}".encode()).digest()
    letters = "".join(_LETTERS[one % len(_LETTERS)] for one in digest[:8])
    return f"{letters[:4]}-{letters[4:]}"
