"""Credentials at rest: encrypted with a key that is derived from the server's own.

Each datastore, and each registry, has a key of its own, derived with its name (HKDF, RFC 5869): what was sealed for one
can't be opened as another's, so that nobody who can write to the database turns a credential to a place of theirs.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from drumbeat.model.errors import StorageError


@dataclass(frozen=True)
class Seal:
    """Closes and opens credentials. key: the server's. noun: of what they are."""

    key: bytes = field(repr=False)
    noun: str = "datastore"

    def close(self, name: str, credentials: Mapping[str, Any]) -> bytes:
        """The credentials of the one of that name, encrypted; b"" for none."""
        return self._cipher(name).encrypt(json.dumps(dict(credentials)).encode()) if credentials else b""

    def open(self, name: str, sealed: bytes) -> dict[str, Any]:
        """The credentials again; {} for none. Raises StorageError when they were sealed otherwise."""
        from cryptography.fernet import InvalidToken

        if not sealed:
            return {}
        try:
            return json.loads(self._cipher(name).decrypt(sealed))
        except InvalidToken:
            what = f"the credentials of {self.noun} {name} can't be opened: they were sealed with another key"
            fix = "Is the file `key` in the server's home the one of before? Else create it again."
            raise StorageError(what, fix=fix) from None

    def _cipher(self, name: str) -> Any:
        from cryptography.fernet import Fernet
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        purpose = f"drumbeat: credentials of {self.noun} {name}"
        derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose.encode()).derive(self.key)
        return Fernet(base64.urlsafe_b64encode(derived))
