"""Stores of a test's own, on loopback: Azurite, an S3 server that checks signatures, a web server, sshd.

Each is a context manager; everything that it starts ends with it, and with the test process if that is killed. As
fixtures, one of each for a module:

    from tests.real.store_servers import azurite, s3_server, sshd, web_server  # noqa: F401

More of them, with other ways in: `identities.py`.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import getpass
import http.server
import json
import os
import re
import secrets
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from drumbeat.jobfile.data.datastores import AzureBlobDatastore, HttpDatastore, S3Datastore, SftpDatastore
from tools.kept_programs import AZURITE, SEAWEED
from tools.sshlab import SSHD, missing_openssh

from .started import a_process, free_ports, provide, until_there


# --- Azurite ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Azurite:
    """A server of Azure's blob protocol. endpoint: of a datastore. ca: the file of who says who it is, over TLS."""

    endpoint: str
    account: str
    key: str = field(repr=False)
    ca: str = ""

    def datastore(self, name: str, container: str, **credentials: str) -> AzureBlobDatastore:
        """One over a container; with the account's key unless other credentials are named."""
        return AzureBlobDatastore.made({
            "name": name, "account_name": self.account, "container_name": container, "endpoint": self.endpoint,
            "credentials": credentials or {"account_key": self.key},
        })  # fmt: skip

    def service(self) -> Any:
        """Azure's own client."""
        from azure.storage.blob import BlobServiceClient

        held = {"account_name": self.account, "account_key": self.key}
        address = f"{self.endpoint}/{self.account}"
        return BlobServiceClient(address, credential=held, connection_verify=self.ca or True)

    def container(self, *, is_public: bool = False) -> str:
        """A new container's name."""
        name = f"c{secrets.token_hex(8)}"
        with self.service() as service:
            service.create_container(name, public_access="container" if is_public else None)
        return name


@contextlib.contextmanager
def an_azurite(folder: Path, *options: str, ca: str = "") -> Iterator[Azurite]:
    program = provide(AZURITE)
    account, key = "drumbeattests", base64.b64encode(secrets.token_bytes(64)).decode()
    command = [
        shutil.which("node") or "node", str(program), "--blobHost", "127.0.0.1", "--blobPort", "0", "--location",
        str(folder), "--disableTelemetry", "--skipApiVersionCheck", "--loose", *options,
    ]  # fmt: skip
    environment = {**os.environ, "AZURITE_ACCOUNTS": f"{account}:{key}"}
    with a_process(folder, command, environment) as log:
        address = until_there(lambda: re.search(r"https?://127\.0\.0\.1:\d+", log.read_text()), "Azurite's address")
        yield Azurite(address[0], account, key, ca)


# --- S3 ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class S3Server:
    """SeaweedFS: checks signatures, expiry and rights. reader: an access key that may only read and list."""

    endpoint: str
    key_id: str
    key: str = field(repr=False)
    reader: tuple[str, str] = field(repr=False, default=("", ""))

    def datastore(self, name: str, bucket: str, prefix: str = "", **credentials: str) -> S3Datastore:
        """One over a bucket; with the owner's key unless other credentials are named."""
        held = credentials or {"access_key_id": self.key_id, "secret_access_key": self.key}
        return S3Datastore.made({
            "name": name, "bucket": bucket, "endpoint": self.endpoint, "prefix": prefix, "credentials": held,
        })  # fmt: skip

    def client(self) -> Any:
        """Amazon's own client."""
        import botocore.session

        return botocore.session.Session().create_client(
            "s3", endpoint_url=self.endpoint, region_name="us-east-1",
            aws_access_key_id=self.key_id, aws_secret_access_key=self.key,
        )  # fmt: skip

    def bucket(self) -> str:
        """A new bucket's name."""
        name = f"b{secrets.token_hex(8)}"
        self.client().create_bucket(Bucket=name)
        return name


@contextlib.contextmanager
def an_s3_server(folder: Path) -> Iterator[S3Server]:
    program = provide(SEAWEED)
    owner, reader = (secrets.token_hex(10), secrets.token_hex(20)), (secrets.token_hex(10), secrets.token_hex(20))
    rights = [("owner", owner, ["Admin"]), ("reader", reader, ["Read", "List"])]
    config = {
        "identities": [
            {"name": name, "credentials": [{"accessKey": key[0], "secretKey": key[1]}], "actions": actions}
            for name, key, actions in rights
        ]
    }
    (folder / "s3.json").write_text(json.dumps(config))
    names = ("master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc")
    ports = dict(zip((*names, "s3.port", "s3.port.grpc"), free_ports(8), strict=True))
    command = [
        str(program), "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false",
        "-master.volumeSizeLimitMB=64", "-volume.max=1000", "-filer", "-s3", f"-s3.config={folder / 's3.json'}",
        "-s3.port.iceberg=0", "-s3.port.lance=0", *(f"-{name}={port}" for name, port in ports.items()),
    ]  # fmt: skip
    with a_process(folder, command, dict(os.environ)):
        there = S3Server(f"http://127.0.0.1:{ports['s3.port']}", *owner, reader)
        until_there(lambda: _takes_objects(there), "the S3 server")
        yield there


def _takes_objects(server: S3Server) -> bool:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        server.client().create_bucket(Bucket="first")
    except ClientError as error:
        if "Exists" not in str(error) and "Owned" not in str(error):
            return False
    except BotoCoreError:
        return False
    with contextlib.suppress(ClientError, BotoCoreError):
        server.client().put_object(Bucket="first", Key="x", Body=b"x")
        return True
    return False


# --- the web ----------------------------------------------------------------------------------------------------
@dataclass
class WebServer:
    """Serves `folder` and lists it. What a test may change: what it wants of clients, and how ill it is.

    authorization, query: the header, and what stands behind `?`, that it wants, "" = none. ranges, tags, dates: whether
    it knows Range, ETag with If-Match, Last-Modified. status: what it answers everything with, 0 = the truth.
    folder_status: the same for addresses that end in `/`. cut: after so many bytes of a file the line breaks. asked:
    (method, path, Range) of all requests.
    """

    url: str
    folder: Path
    authorization: str = ""
    query: str = ""
    ranges: bool = True
    tags: bool = True
    dates: bool = True
    status: int = 0
    folder_status: int = 0
    cut: int | None = None
    asked: list[tuple[str, str, str]] = field(default_factory=list)

    def put(self, path: str, content: bytes) -> None:
        """Makes or replaces a file."""
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)

    def datastore(self, name: str, **credentials: str) -> HttpDatastore:
        """One over all of it."""
        return HttpDatastore.made({"name": name, "url": self.url, "credentials": credentials or "none"})

    def naming(self) -> dict[str, HttpDatastore]:
        """A datastore that names the server's address, so that it may be called, and covers none of its files."""
        return {"named": HttpDatastore(name="named", url=f"{self.url}/named")}


@contextlib.contextmanager
def a_web_server(folder: Path) -> Iterator[WebServer]:
    there = WebServer("", folder)

    class Handler(_Handler):
        web = there

    server = _Server(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
    there.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield there
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever asked went away."""


class _Handler(http.server.SimpleHTTPRequestHandler):
    web: WebServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        if self._is_welcome():
            place = Path(self.translate_path(self.path))
            if place.is_file():
                self._send_file(place, has_body=False)
            else:
                super().do_HEAD()

    def do_GET(self) -> None:
        if self._is_welcome():
            place = Path(self.translate_path(self.path))
            if place.is_file():
                self._send_file(place)
            else:
                super().do_GET()

    def _is_welcome(self) -> bool:
        self.web.asked.append((self.command, self.path, self.headers.get("Range", "")))
        if self.web.status:
            self.send_error(self.web.status)
        elif self.web.folder_status and self.path.partition("?")[0].endswith("/"):
            self.send_error(self.web.folder_status)
        elif self.web.authorization and self.headers.get("Authorization") != self.web.authorization:
            self.send_error(401)
        elif self.web.query and self.path.partition("?")[2] != self.web.query:
            self.send_error(403)
        elif self._is_other():
            self.send_error(412)
        else:
            return True
        return False

    def _tag(self) -> str:
        place = Path(self.translate_path(self.path))
        return f'"{place.stat().st_mtime_ns:x}"' if self.web.tags and place.is_file() else ""

    def _is_other(self) -> bool:
        return self.web.tags and self.headers.get("If-Match", self._tag()) != self._tag()

    def end_headers(self) -> None:
        if tag := self._tag():
            self.send_header("ETag", tag)
        super().end_headers()

    def _send_file(self, place: Path, *, has_body: bool = True) -> None:
        content, size = place.read_bytes(), place.stat().st_size
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")) if self.web.ranges else None
        start, end = (int(asked[1]), int(asked[2] or size - 1)) if asked else (0, size - 1)
        if asked and start >= size:
            self.send_error(416)
            return
        part = content[start : end + 1]
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{min(end, size - 1)}/{size}")
        self.send_header("Content-Length", str(len(part)))
        if self.web.dates:
            self.send_header("Last-Modified", self.date_time_string(int(place.stat().st_mtime)))
        self.end_headers()
        if not has_body:
            return
        self.wfile.write(part if self.web.cut is None else part[: self.web.cut])
        if self.web.cut is not None:
            self.close_connection = True


# --- sshd -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Sshd:
    """An ssh server that lets this user in with one key. folder: one that it can write to."""

    port: int
    user: str
    folder: Path
    private_key: str = field(repr=False)
    known_hosts: str = ""

    def datastore(self, name: str, path: str | Path, **keys: Any) -> SftpDatastore:
        """One over a folder."""
        return SftpDatastore.made({
            "name": name, "host": "127.0.0.1", "port": self.port, "user": self.user, "path": str(path),
            "known_hosts": self.known_hosts, "credentials": {"private_key": self.private_key}, **keys,
        })  # fmt: skip


@contextlib.contextmanager
def an_sshd(folder: Path) -> Iterator[Sshd]:
    if why := missing_openssh():
        pytest.skip(why)
    there = ssh_keys(folder)
    lines = [
        f"Port {there.port}", "ListenAddress 127.0.0.1", f"HostKey {folder / 'host'}", "PidFile none", "StrictModes no",
        f"AuthorizedKeysFile {folder / 'user.pub'}", "PasswordAuthentication no", "UsePAM no", "MaxStartups 100",
        "KbdInteractiveAuthentication no", "Subsystem sftp internal-sftp", "PermitRootLogin prohibit-password",
    ]  # fmt: skip
    (folder / "config").write_text("\n".join(lines) + "\n")
    with a_process(folder, [SSHD, "-D", "-e", "-f", str(folder / "config")], dict(os.environ)) as log:
        until_there(lambda: "Server listening" in log.read_text(), "sshd")
        yield there


def ssh_keys(folder: Path) -> Sshd:
    """Those of a server and of its user, a port, and a folder with files."""
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    (port,) = free_ports(1)
    kind, key = (folder / "host.pub").read_text().split()[:2]
    files = folder / "files"
    files.mkdir()
    known = f"[127.0.0.1]:{port} {kind} {key}"
    return Sshd(port, getpass.getuser(), files, (folder / "user").read_text(), known)


# --- fixtures ---------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    with an_azurite(tmp_path_factory.mktemp("azurite")) as there:
        yield there


@pytest.fixture(scope="module")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with an_s3_server(tmp_path_factory.mktemp("s3")) as there:
        yield there


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with an_sshd(tmp_path_factory.mktemp("sshd")) as there:
        yield there


@pytest.fixture
def web_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    with a_web_server(tmp_path_factory.mktemp("web")) as there:
        yield there
