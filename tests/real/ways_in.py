"""A store for every kind of credential, with the file `in/a.csv` in it; a right one, a wrong one, their secrets."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from .identities import (
    Authority,
    Certificate,
    a_bucket_server,
    a_certificate,
    a_private_key,
    an_authority,
    an_azurite_of_principals,
    an_sshd_by_password,
)
from .store_servers import Azurite, Sshd, a_web_server, an_azurite, an_s3_server, an_sshd

KINDS = (
    "azure-key", "azure-sas", "azure-principal", "s3", "gcs", "sftp-key", "sftp-password", "http-password",
    "http-token", "http-query",
)  # fmt: skip
HERE = "in/a.csv"


@dataclass(frozen=True)
class Way:
    """Into one store. keys: its file, but for the credentials. secrets: what of right and wrong mustn't be seen."""

    keys: dict[str, Any]
    right: dict[str, str] = field(repr=False)
    wrong: dict[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)
    is_writable: bool = True


@dataclass(frozen=True)
class Ways:
    """All of them, by kind. certificate: what the servers that have TLS show."""

    by_kind: dict[str, Way]
    certificate: Certificate
    authority: Authority

    def secrets(self, kind: str) -> tuple[str, ...]:
        """Also the tokens that were given for a principal or an account: they let one in as well."""
        given = self.authority.given if kind in ("azure-principal", "gcs") else []
        return (*self.by_kind[kind].secrets, *given)


@contextlib.contextmanager
def all_ways(folder: Path) -> Iterator[Ways]:
    with contextlib.ExitStack() as servers:
        enter = servers.enter_context
        # First the servers that may have to be installed.
        buckets, s3 = enter(_gcs(_new(folder, "gcs"))), enter(_s3(_new(folder, "s3")))
        azurite = enter(an_azurite(_new(folder, "azure")))
        certificate = a_certificate(_new(folder, "tls"))
        authority = enter(an_authority(certificate))
        guarded = enter(an_azurite_of_principals(_new(folder, "entra"), certificate))
        by_key, by_password = enter(an_sshd(_new(folder, "key"))), enter(an_sshd_by_password(_new(folder, "password")))
        found = {
            "azure-key": _azure_key(azurite),
            "azure-sas": _azure_sas(azurite),
            "azure-principal": _azure_principal(guarded, authority),
            "s3": s3,
            "gcs": _google(buckets, authority),
            "sftp-key": _sftp(by_key, {"private_key": by_key.private_key}, {"private_key": by_password.private_key}),
            "sftp-password": _sftp(by_password, {"password": by_password.password}, {"password": a_word()}),
            **{kind: enter(_web(kind, _new(folder, kind))) for kind in KINDS if kind.startswith("http-")},
        }
        yield Ways(found, certificate, authority)


def _new(folder: Path, name: str) -> Path:
    (folder / name).mkdir(parents=True)
    return folder / name


def a_word() -> str:
    return secrets.token_urlsafe(24)


# --- Azure ------------------------------------------------------------------------------------------------------
def _container(azurite: Azurite, kind: str) -> dict[str, Any]:
    name = azurite.container()
    with azurite.service() as service:
        service.get_container_client(name).upload_blob(HERE, f"{kind}\n".encode())
    return {"type": "azure_blob", "account_name": azurite.account, "container_name": name, "endpoint": azurite.endpoint}


def _azure_key(azurite: Azurite) -> Way:
    other = base64.b64encode(os.urandom(64)).decode()
    keys = _container(azurite, "azure-key")
    return Way(keys, {"account_key": azurite.key}, {"account_key": other}, (azurite.key, other))


def _azure_sas(azurite: Azurite) -> Way:
    from azure.storage.blob import ContainerSasPermissions, generate_container_sas

    keys = _container(azurite, "azure-sas")
    right, wrong = (
        generate_container_sas(
            azurite.account, keys["container_name"], account_key=key, expiry=datetime.now(UTC) + timedelta(hours=1),
            permission=ContainerSasPermissions(read=True, list=True, write=True, create=True, delete=True),
        )
        for key in (azurite.key, base64.b64encode(os.urandom(64)).decode())
    )  # fmt: skip
    signatures = tuple(urllib.parse.parse_qs(one)["sig"][0] for one in (right, wrong))
    return Way(keys, {"sas_token": right}, {"sas_token": wrong}, signatures)


def _azure_principal(azurite: Azurite, authority: Authority) -> Way:
    wrong = {**authority.principal, "client_secret": a_word()}
    hidden = (authority.principal["client_secret"], wrong["client_secret"])
    return Way(_container(azurite, "azure-principal"), authority.principal, wrong, hidden)


# --- buckets ----------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def _s3(folder: Path) -> Iterator[Way]:
    with an_s3_server(folder) as server:
        bucket = server.bucket()
        server.client().put_object(Bucket=bucket, Key=HERE, Body=b"s3\n")
        right = {"access_key_id": server.key_id, "secret_access_key": server.key}
        wrong = {**right, "secret_access_key": a_word()}
        keys = {"type": "s3", "bucket": bucket, "endpoint": server.endpoint}
        yield Way(keys, right, wrong, (server.key, wrong["secret_access_key"]))


@contextlib.contextmanager
def _gcs(folder: Path) -> Iterator[str]:
    with a_bucket_server(folder) as url:
        place = f"{url}/upload/storage/v1/b/train/o?uploadType=media&name={urllib.parse.quote(HERE, safe='')}"
        with urllib.request.urlopen(urllib.request.Request(place, b"gcs\n", method="POST"), timeout=30):
            yield url


def _google(url: str, authority: Authority) -> Way:
    other = {**authority.account, "private_key": a_private_key()}
    right, wrong = ({"service_account": json.dumps(one)} for one in (authority.account, other))
    keys = {"type": "gcs", "bucket": "train", "endpoint": url}
    return Way(keys, right, wrong, (*_lines(authority.account["private_key"]), *_lines(other["private_key"])))


# --- ssh and the web --------------------------------------------------------------------------------------------
def _sftp(server: Sshd, right: dict[str, str], wrong: dict[str, str]) -> Way:
    (server.folder / "in").mkdir()
    (server.folder / HERE).write_text(f"sftp-{next(iter(right)).removeprefix('private_')}\n")
    keys = {
        "type": "sftp", "host": "127.0.0.1", "port": server.port, "user": server.user, "path": str(server.folder),
        "known_hosts": server.known_hosts,
    }  # fmt: skip
    hidden = [line for one in (*right.values(), *wrong.values()) for line in _lines(one)]
    return Way(keys, right, wrong, tuple(hidden))


@contextlib.contextmanager
def _web(kind: str, folder: Path) -> Iterator[Way]:
    word, other = a_word(), a_word()
    with a_web_server(folder) as server:
        server.put(HERE, f"{kind}\n".encode())
        if kind == "http-query":
            server.query = f"X-Any-Signature={word}"
            right, wrong = {"query": server.query}, {"query": f"?X-Any-Signature={other}"}
        elif kind == "http-token":
            server.authorization = f"Bearer {word}"
            right, wrong = {"token": word}, {"token": other}
        else:
            server.authorization = f"Basic {base64.b64encode(f'reader:{word}'.encode()).decode()}"
            right, wrong = {"user": "reader", "password": word}, {"user": "reader", "password": other}
        yield Way({"type": "http", "url": server.url}, right, wrong, (word, other), is_writable=False)


def _lines(key: str) -> list[str]:
    """What is secret of a file with a key: every full line of its body but the first, which names its kind."""
    body = [line for line in key.splitlines() if line and not line.startswith("-----")]
    return [line for line in body[1:] if len(line) > 60] or body
