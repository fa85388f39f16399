"""The certificate authority of a server's home, and the server's own certificates, which it signs.

The CA's file is created when it is first needed and never overwritten, because agents of running jobs trust the
certificate in it. The time is an argument of every function.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from drumbeat.model.errors import EngineError
from drumbeat.server.home import first_written

LIFE = timedelta(days=3652)
SKEW = timedelta(days=1)
"""How much a node's clock may lag behind the server's."""


@dataclass(frozen=True)
class Issued:
    """A certificate of the server. pem: its key and the certificate."""

    pem: bytes
    begin: datetime
    end: datetime

    def is_due(self, now: datetime) -> bool:
        """Whether to renew it: a third of its validity is left, or the clock was set back to before its start."""
        return not self.begin <= now < self.end - (self.end - self.begin) / 3


@dataclass(frozen=True)
class Authority:
    """The certificate authority, which signs the server's certificates."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def load_or_create(cls, path: Path, now: datetime) -> Authority:
        """Loads the authority from `path`, or creates it there. Servers that start at the same moment get the same one.

        Raises EngineError where the file can't be used.
        """
        try:
            content = path.read_bytes() if path.exists() else first_written(path, _new(now))
            status = path.stat()
            if status.st_uid == os.geteuid() and status.st_mode & 0o077:
                path.chmod(0o600)
        except OSError as error:
            raise _unusable(path, f"can't be read or created: {error.strerror}") from None
        if status.st_uid != os.geteuid():
            raise _unusable(path, "belongs to another user")
        return cls._read(path, content, now)

    @classmethod
    def _read(cls, path: Path, content: bytes, now: datetime) -> Authority:
        try:
            key, certificate = load_pem_private_key(content, None), x509.load_pem_x509_certificate(content)
            limits = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
            certificate.verify_directly_issued_by(certificate)
        except (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature, x509.ExtensionNotFound):
            raise _unusable(path, "is damaged, or wasn't created by a server") from None
        if not limits.ca or not isinstance(key, ec.EllipticCurvePrivateKey):
            raise _unusable(path, "wasn't created by a server")
        if key.public_key() != certificate.public_key():
            raise _unusable(path, "holds a key that doesn't match its certificate")
        begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        if not begin <= now < end:
            raise _unusable(path, f"is valid from {begin:%Y-%m-%d} to {end:%Y-%m-%d}; the clock says {now:%Y-%m-%d}")
        return cls(certificate, key)

    @property
    def pem(self) -> str:
        """The authority's certificate (PEM), with which agents verify the server's."""
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def issue(self, addresses: Iterable[str], now: datetime, life: timedelta) -> Issued:
        """Issues a certificate with a new key for these addresses (IP or DNS). Raises EngineError."""
        key = ec.generate_private_key(ec.SECP256R1())
        begin = max(_whole(now - SKEW), self.certificate.not_valid_before_utc)
        end = min(_whole(now + life), self.certificate.not_valid_after_utc)
        if not now < end:
            raise EngineError("the certificate authority has expired, or the clock is wrong", where=f"{now:%Y-%m-%d}")
        signer = (self.certificate.subject, self.key.public_key())
        names = x509.SubjectAlternativeName([_alternative(one) for one in addresses])
        certificate = (
            _builder(_name("drumbeat server"), key.public_key(), (begin, end), signer)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(is_authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(names, critical=False)
            .sign(self.key, hashes.SHA256())
        )
        return Issued(_pem(key, certificate), begin, end)


def _new(now: datetime) -> bytes:
    """Returns the key and certificate of a new authority. The number in the name distinguishes authorities."""
    key, name = ec.generate_private_key(ec.SECP256R1()), _name(f"drumbeat CA {secrets.token_hex(4)}")
    life = (_whole(now - SKEW), _whole(now + LIFE))
    certificate = (
        _builder(name, key.public_key(), life, (name, key.public_key()))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(is_authority=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return _pem(key, certificate)


def _builder(
    name: x509.Name,
    key: ec.EllipticCurvePublicKey,
    life: tuple[datetime, datetime],
    issuer: tuple[x509.Name, ec.EllipticCurvePublicKey],
) -> x509.CertificateBuilder:
    """Returns a builder with the fields that RFC 5280 requires of every certificate."""
    return (
        x509.CertificateBuilder(serial_number=x509.random_serial_number())
        .subject_name(name)
        .issuer_name(issuer[0])
        .public_key(key)
        .not_valid_before(life[0])
        .not_valid_after(life[1])
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer[1]), critical=False)
    )


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority, key_cert_sign=is_authority, crl_sign=is_authority, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def _pem(key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> bytes:
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private + certificate.public_bytes(Encoding.PEM)


def _whole(at: datetime) -> datetime:
    """Drops fractions of a second, which certificates can't express."""
    return at.replace(microsecond=0)


def _unusable(path: Path, why: str) -> EngineError:
    fix = "Restore its backup. If there is none, remove it: running jobs on other hosts then lose the server."
    return EngineError(f"the certificate authority {why}", where=str(path), fix=fix)
