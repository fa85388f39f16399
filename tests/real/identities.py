"""Stores of a test's own that ask who one is: Azurite by a service principal, a bucket of Google's kind by a service
account, ssh by a password.

Who answers for a principal and for an account is `an_authority`: it checks the secret, or the signature made with the
key, and gives a token. Azurite checks the token's issuer, audience and time; the bucket's server checks nothing.
"""

from __future__ import annotations

import base64
import contextlib
import getpass
import http.server
import json
import os
import secrets
import select
import socket
import socketserver
import ssl
import subprocess
import threading
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tools.kept_programs import FAKE_GCS
from tools.sshlab import SSHD, missing_openssh

from .started import a_process, free_ports, provide, until_there
from .store_servers import Azurite, Sshd, an_azurite, ssh_keys

HOUR_S = 3600
GOOGLES = "https://oauth2.googleapis.com/token"
"""For whom Google's library signs what it shows, wherever it shows it."""


@dataclass(frozen=True)
class Certificate:
    """For 127.0.0.1, and its own authority."""

    file: Path
    key: Path

    @property
    def trusted(self) -> dict[str, str]:
        """What has Python's programs trust it, and nobody beyond this machine: Google's library asks Google as well."""
        nowhere = {"https_proxy": "http://127.0.0.1:9", "no_proxy": "127.0.0.1"}
        return {"REQUESTS_CA_BUNDLE": str(self.file), "SSL_CERT_FILE": str(self.file), **nowhere}


def a_certificate(folder: Path) -> Certificate:
    made = Certificate(folder / "cert.pem", folder / "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
         "-addext", "keyUsage=critical,digitalSignature,keyCertSign", "-keyout", made.key, "-out", made.file],
        check=True, capture_output=True,
    )  # fmt: skip
    return made


def made_out_anew(certificate: Certificate, begins: timedelta, ends: timedelta) -> None:
    """Replaces a certificate by one with the same key that is valid between two times, counted from now."""
    private = serialization.load_pem_private_key(certificate.key.read_bytes(), password=None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    earlier, now = x509.load_pem_x509_certificate(certificate.file.read_bytes()), datetime.now(UTC)
    made = x509.CertificateBuilder(
        earlier.issuer, earlier.subject, earlier.public_key(), x509.random_serial_number(), now + begins, now + ends,
        list(earlier.extensions),
    )  # fmt: skip
    certificate.file.write_bytes(made.sign(private, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))


# --- TLS before a server that has none ------------------------------------------------------------------------------
@contextlib.contextmanager
def a_tls_front(url: str, certificate: Certificate) -> Iterator[str]:
    """The address at which a server of plain HTTP is spoken to by TLS, with what the certificate's file has by then."""
    there = urllib.parse.urlsplit(url)

    class Line(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate.file, certificate.key)
            with (
                contextlib.suppress(OSError),  # A client that doesn't trust the certificate hangs up.
                context.wrap_socket(self.request, server_side=True) as client,
                socket.create_connection((there.hostname or "", there.port or 80)) as server,
            ):
                while pieces := _next_pieces(client, server):
                    for to, piece in pieces:
                        to.sendall(piece)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Line) as front:
        front.daemon_threads = True
        thread = threading.Thread(target=front.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"https://127.0.0.1:{front.server_address[1]}"
        finally:
            front.shutdown()
            thread.join()


def _next_pieces(client: ssl.SSLSocket, server: socket.socket) -> list[tuple[socket.socket, bytes]]:
    """What has come, and to whom it goes; [] = one of the two has hung up."""
    ready = [client] if client.pending() else select.select([client, server], [], [])[0]
    pieces = [(server if one is client else client, one.recv(1 << 16)) for one in ready]
    return pieces if all(piece for _, piece in pieces) else []


# --- who answers for principals and accounts --------------------------------------------------------------------
@dataclass
class Authority:
    """Gives tokens. principal: of its one service principal, as a datastore's credentials. given: the tokens."""

    url: str
    principal: dict[str, str] = field(repr=False)
    account: dict[str, str] = field(repr=False)
    public_key: str = ""
    given: list[str] = field(default_factory=list)


@contextlib.contextmanager
def an_authority(certificate: Certificate) -> Iterator[Authority]:
    tenant, client = secrets.token_hex(8), secrets.token_hex(8)
    private, public = _a_key()
    there = Authority("", {"tenant_id": tenant, "client_id": client, "client_secret": secrets.token_urlsafe(30)}, {})

    class Handler(_AuthorityHandler):
        authority = there

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.file, certificate.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    there.url = f"https://127.0.0.1:{server.server_address[1]}"
    there.principal["authority_url"] = there.url
    there.public_key = public
    there.account = {
        "type": "service_account", "project_id": "tests", "private_key_id": secrets.token_hex(8),
        "private_key": private,
        "client_email": "trainer@tests.iam.gserviceaccount.com", "client_id": "1", "token_uri": f"{there.url}/account",
    }  # fmt: skip
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield there
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def a_private_key() -> str:
    """As its file has it."""
    return _a_key()[0]


def _a_key() -> tuple[str, str]:
    """A private key and its public half, as their files have them."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(65537, 2048)
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    public = key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    return private.decode(), public.decode()


class _AuthorityHandler(http.server.BaseHTTPRequestHandler):
    authority: Authority
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        """What Microsoft's library asks first."""
        base = f"{self.authority.url}/{self.authority.principal['tenant_id']}"
        known = self.path.endswith("/.well-known/openid-configuration")
        self._answer(200 if known else 404, {
            "issuer": f"{base}/v2.0", "token_endpoint": f"{base}/token", "authorization_endpoint": f"{base}/authorize",
        })  # fmt: skip

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = {name: values[0] for name, values in urllib.parse.parse_qs(body).items()}
        is_known = self._is_the_account(form) if self.path == "/account" else self._is_the_principal(form)
        if not is_known:
            self._answer(401, {"error": "invalid_client", "error_description": "it isn't known here"})
            return
        token = _a_token()
        self.authority.given.append(token)
        self._answer(200, {"access_token": token, "token_type": "Bearer", "expires_in": HOUR_S})

    def _is_the_principal(self, form: dict[str, str]) -> bool:
        wanted = self.authority.principal
        return all(form.get(name) == wanted[name] for name in ("client_id", "client_secret"))

    def _is_the_account(self, form: dict[str, str]) -> bool:
        from google.auth import jwt

        try:
            jwt.decode(form["assertion"], certs=self.authority.public_key, audience=GOOGLES)
        except ValueError:
            return False
        return True

    def _answer(self, status: int, told: dict[str, Any]) -> None:
        body = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _a_token() -> str:
    now = int(time.time())
    told = {
        "aud": "https://storage.azure.com", "iss": "https://sts.windows.net/tests/", "iat": now - 60, "nbf": now - 60,
        "exp": now + HOUR_S, "oid": "o", "tid": "t", "sub": secrets.token_hex(16),
    }  # fmt: skip
    parts = (json.dumps({"typ": "JWT", "alg": "RS256"}).encode(), json.dumps(told).encode(), secrets.token_bytes(40))
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


def an_azurite_of_principals(folder: Path, certificate: Certificate) -> contextlib.AbstractContextManager[Azurite]:
    """One that takes tokens, over TLS."""
    options = ("--oauth", "basic", "--cert", str(certificate.file), "--key", str(certificate.key))
    return an_azurite(folder, *options, ca=str(certificate.file))


# --- Google's buckets -------------------------------------------------------------------------------------------
@contextlib.contextmanager
def a_bucket_server(folder: Path) -> Iterator[str]:
    """The address of fake-gcs-server, which has Google's API, with a bucket `train`."""
    (port,) = free_ports(1)
    (folder / "data" / "train").mkdir(parents=True)
    words = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-public-host", f"127.0.0.1:{port}"]
    program = provide(FAKE_GCS)
    program.chmod(0o755)
    command = [str(program), *words, "-backend", "memory", "-data", str(folder / "data")]
    with a_process(folder, command, dict(os.environ)) as log:
        until_there(lambda: "server started" in log.read_text(), "the server of buckets")
        yield f"http://127.0.0.1:{port}"


# --- ssh by password --------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class PasswordSshd(Sshd):
    """An ssh server that lets this user in with a password of the test's own, which nothing else knows."""

    password: str = field(repr=False, default="")


@contextlib.contextmanager
def an_sshd_by_password(folder: Path) -> Iterator[PasswordSshd]:
    """It sees an /etc/shadow of its own, in a mount namespace: for that one has to be root."""
    if os.geteuid() != 0:
        pytest.skip("an ssh server with a password of the test's own needs root: it gets an /etc/shadow of its own")
    if why := missing_openssh():
        pytest.skip(why)
    password, user = secrets.token_urlsafe(20), getpass.getuser()
    hashed = subprocess.run(
        ["openssl", "passwd", "-6", "-stdin"], input=password, capture_output=True, text=True, check=True
    ).stdout.strip()
    shadow = folder / "shadow"
    shadow.touch(0o600)
    shadow.write_text(f"{user}:{hashed}:20000:0:99999:7:::\n")
    there = ssh_keys(folder)
    lines = [
        f"Port {there.port}", "ListenAddress 127.0.0.1", f"HostKey {folder / 'host'}", "PidFile none", "UsePAM no",
        "PubkeyAuthentication no", "PasswordAuthentication yes", "PermitRootLogin yes", "MaxStartups 100",
        "Subsystem sftp internal-sftp",
    ]  # fmt: skip
    (folder / "config").write_text("\n".join(lines) + "\n")
    # The shell's arguments: nothing of a path is read as a word of its language.
    script = 'mount --bind "$1" /etc/shadow && exec "$2" -D -e -f "$3"'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", str(shadow), SSHD, str(folder / "config")]
    with a_process(folder, command, dict(os.environ)) as log:
        until_there(lambda: "Server listening" in log.read_text(), "sshd")
        yield PasswordSshd(**vars(there), password=password)
