"""Signed statements of models, in the format of OpenSSF Model Signing (OMS): made, signed, verified.

A statement is an in-toto Statement v1 in a DSSE envelope in a Sigstore bundle v0.3, signed with an EC key on P-256. It
has the SHA-256 of each file, and under the predicate's key `drumbeat` where the model came from. `model_signing verify
key` of the package model-signing accepts it. Only `cryptography` is needed, which is imported when it is first used.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, cast

from drumbeat.model.errors import RefusedError, SpecError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

FILE = "model.sig"
"""The name under which clients find the bundle beside a model."""
IGNORED = (".git", ".gitattributes", ".github", ".gitignore")
"""Files and folders that model-signing leaves out."""

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://model_signing/signature/v1.0"
BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
LINEAGE = "drumbeat"

INSTALL = "Install the package: pip install cryptography"


@dataclass(frozen=True)
class Statement:
    """What a verified signature states. files: SHA-256 by path. sha256: of the statement itself."""

    name: str
    files: Mapping[str, str]
    lineage: Mapping[str, Any] = field(default_factory=dict[str, Any])
    sha256: str = ""


def is_covered(path: str) -> bool:
    """Whether statements cover a file of a model."""
    return not any(part in IGNORED for part in PurePosixPath(path).parts)


def digest_of_files(files: Mapping[str, str]) -> str:
    """Returns the digest of a whole model: the SHA-256 of its files' digests, in the order of their paths."""
    return hashlib.sha256(b"".join(bytes.fromhex(digest) for _, digest in sorted(files.items()))).hexdigest()


def payload(name: str, files: Mapping[str, str], lineage: Mapping[str, Any]) -> bytes:
    """Returns the JSON of a statement. files: SHA-256 by path."""
    covered = {path: digest for path, digest in files.items() if is_covered(path)}
    predicate = {
        "serialization": {
            "method": "files", "hash_type": "sha256", "allow_symlinks": False, "ignore_paths": list(IGNORED),
        },
        "resources": [
            {"name": path, "algorithm": "sha256", "digest": digest} for path, digest in sorted(covered.items())
        ],
        LINEAGE: dict(lineage),
    }  # fmt: skip
    subject = [{"name": name, "digest": {"sha256": digest_of_files(covered)}}]
    written = {
        "_type": STATEMENT_TYPE,
        "subject": subject,
        "predicateType": PREDICATE_TYPE,
        "predicate": predicate,
    }
    return json.dumps(written, separators=(",", ":")).encode()


def sign(statement: bytes, key: bytes) -> dict[str, Any]:
    """Returns the bundle of a statement. key: a private key in PEM."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    private = _private(key)
    signature = private.sign(_to_be_signed(statement), ec.ECDSA(hashes.SHA256()))
    return {
        "mediaType": BUNDLE_TYPE,
        "verificationMaterial": {"publicKey": {"hint": fingerprint(public_key(key))}, "tlogEntries": []},
        "dsseEnvelope": {
            "payload": base64.b64encode(statement).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"sig": base64.b64encode(signature).decode(), "keyid": ""}],
        },
    }


def verify(bundle: Mapping[str, Any], key: bytes) -> Statement:
    """Returns the statement in a bundle. key: the public key in PEM that its signature is checked with.

    Raises RefusedError where the signature is another key's, SpecError where something can't be read.
    """
    crypto = _cryptography()
    try:
        envelope = bundle["dsseEnvelope"]
        signed, signature = base64.b64decode(envelope["payload"]), base64.b64decode(envelope["signatures"][0]["sig"])
        is_ours = envelope["payloadType"] == PAYLOAD_TYPE
    except (KeyError, TypeError, ValueError, IndexError):
        raise SpecError(
            "this isn't a model's signature", fix="A signature is a Sigstore bundle, as in model.sig."
        ) from None
    if not is_ours:
        raise SpecError("the signature is of something else than a model", fix="Name the model's own signature.")
    public = _public(key)
    try:
        public.verify(signature, _to_be_signed(signed), crypto.ec.ECDSA(crypto.hashes.SHA256()))
    except crypto.InvalidSignature:
        what = "the signature isn't valid: it was made with another key, or the statement was changed"
        raise RefusedError(what, fix="Ask the registry for its key: drumbeat model key") from None
    return parse(signed)


def unverified(bundle: Mapping[str, Any]) -> Statement:
    """Returns the statement in a bundle of the server's own, without looking at its signature."""
    return parse(base64.b64decode(bundle["dsseEnvelope"]["payload"]))


def parse(signed: bytes) -> Statement:
    """Returns the statement in its JSON. Raises SpecError."""
    try:
        statement = json.loads(signed)
        subject, predicate = statement["subject"][0], statement["predicate"]
        resources: list[dict[str, str]] = predicate["resources"]
        files = {one["name"]: one["digest"] for one in resources}
        is_model = statement["predicateType"] == PREDICATE_TYPE
        is_whole = subject["digest"]["sha256"] == digest_of_files(files)
        lineage = cast("dict[str, Any]", predicate.get(LINEAGE) or {})
        name = str(subject["name"])
    except (KeyError, TypeError, ValueError, IndexError):
        raise SpecError("the signed statement can't be read", fix="Export the model again.") from None
    if not (is_model and is_whole):
        raise SpecError("the signed statement isn't a model's, or contradicts itself", fix="Export the model again.")
    return Statement(name, files, lineage, hashlib.sha256(signed).hexdigest())


def differences(signed: Mapping[str, str], actual: Mapping[str, str]) -> list[str]:
    """Returns a sentence for each file that isn't as it was signed. Both: SHA-256 by path."""
    actual = {path: digest for path, digest in actual.items() if is_covered(path)}
    changed = (f"{path} has changed" for path in signed if path in actual and actual[path] != signed[path])
    missing = (f"{path} is missing" for path in signed if path not in actual)
    added = (f"{path} was added" for path in actual if path not in signed)
    return sorted([*changed, *missing, *added])


def digest_of_pieces(pieces: Iterable[bytes]) -> str:
    """Returns the SHA-256 of a file's content."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


# --- keys -------------------------------------------------------------------------------------------------------
def new_key() -> bytes:
    """Returns a new private key in PEM."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def public_key(key: bytes) -> bytes:
    """Returns the public part of a private key, both in PEM."""
    from cryptography.hazmat.primitives import serialization

    return (
        _private(key)
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


def fingerprint(public: bytes) -> str:
    """Returns the name of a public key: the SHA-256 of its PEM."""
    return hashlib.sha256(public).hexdigest()


def _private(key: bytes) -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives import serialization

    return cast("EllipticCurvePrivateKey", serialization.load_pem_private_key(key, None))


def _public(key: bytes) -> EllipticCurvePublicKey:
    crypto = _cryptography()
    try:
        public = crypto.serialization.load_pem_public_key(key)
    except ValueError:
        public = None
    if not isinstance(public, crypto.ec.EllipticCurvePublicKey):
        raise SpecError("this isn't a public key of a registry", fix="Write it to a file: drumbeat model key > key.pem")
    return cast("EllipticCurvePublicKey", public)


@dataclass(frozen=True)
class _Cryptography:
    hashes: Any
    serialization: Any
    ec: Any
    InvalidSignature: type[Exception]


def _cryptography() -> _Cryptography:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        raise RefusedError("verifying needs the package cryptography, which isn't installed", fix=INSTALL) from None
    return _Cryptography(hashes, serialization, ec, InvalidSignature)


def _to_be_signed(statement: bytes) -> bytes:
    """Returns DSSE's pre-authentication encoding (https://github.com/secure-systems-lab/dsse, protocol.md)."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(statement), statement)
