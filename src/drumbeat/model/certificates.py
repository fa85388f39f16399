"""What identifies a certificate to people."""

from __future__ import annotations

import hashlib
import ssl

PREFIX = "sha256:"


def fingerprint(pem: str) -> str:
    """Returns `sha256:` and the digest of a certificate's DER form in hex. pem: its first certificate counts.

    Raises ValueError where it isn't one.
    """
    return PREFIX + hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()


def is_same(given: str, pem: str) -> bool:
    """Whether a fingerprint, with or without `sha256:` and colons and in any case, is a certificate's."""
    return PREFIX + given.strip().lower().removeprefix(PREFIX).replace(":", "") == fingerprint(pem)
