"""Encryption of credentials at rest, with keys that are derived from the server's key.

Each resource has a key derived with its name (HKDF, RFC 5869), so that an attacker who can write to the database can't
move a credential to a resource with an address of their own.
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
    """Encrypts and decrypts credentials. key: the server's. noun: the kind of their resources."""

    key: bytes = field(repr=False)
    noun: str = "datastore"

    def close(self, name: str, credentials: Mapping[str, Any]) -> bytes:
        """Encrypts the credentials of a resource; b"" for none."""
        return self._cipher(name).encrypt(json.dumps(dict(credentials)).encode()) if credentials else b""

    def open(self, name: str, sealed: bytes) -> dict[str, Any]:
        """Decrypts credentials; {} for none. Raises StorageError if they were encrypted with another key."""
        from cryptography.fernet import InvalidToken

        if not sealed:
            return {}
        try:
            return json.loads(self._cipher(name).decrypt(sealed))
        except InvalidToken:
            what = f"the credentials of {self.noun} {name} can't be decrypted: they were encrypted with another key"
            fix = f"Restore the file `key` in the server's home, or create the {self.noun} again."
            raise StorageError(what, fix=fix) from None

    def _cipher(self, name: str) -> Any:
        from cryptography.fernet import Fernet
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        purpose = f"drumbeat: credentials of {self.noun} {name}"
        derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose.encode()).derive(self.key)
        return Fernet(base64.urlsafe_b64encode(derived))
