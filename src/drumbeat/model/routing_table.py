"""What the server tells the router: endpoints, their keys, traffic, deployments and replicas. A file, written whole.

Secrets stand in it as SHA-256, except the keys that sign tokens; the file has mode 0600.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

NAME = "table.json"
VERSION = 1
MAX_BODY_BYTES = 10 << 20
"""Azure's limit for managed endpoints."""


def digest(secret: str) -> str:
    """How a key or a secret stands in the table."""
    return hashlib.sha256(secret.encode()).hexdigest()


@dataclass(frozen=True)
class DeploymentRoute:
    """How requests for one deployment are handled."""

    concurrency: int = 1
    """`max_concurrent_requests_per_instance`."""
    instances: int = 1
    """How many replicas there should be: what waits is limited by these, also while one is replaced."""
    timeout_ms: int = 5000
    """`request_timeout_ms`: until the head of the answer, the wait for a replica included."""
    queue_wait_ms: int | None = None
    """`max_queue_wait_ms`; None = the time-out."""
    cold_start_ms: int = 0
    """How long requests wait for the first replica of a deployment with none; 0 = the time-out."""
    has_retry: bool = True
    """Whether a request whose replica died while it ran may run again."""
    passes_errors: bool = False
    """Whether statuses other than 200 reach the client as they are; else they become 424, as in Azure."""
    max_body_bytes: int = MAX_BODY_BYTES
    replicas: Mapping[str, str] = field(default_factory=dict[str, str])
    """The SHA-256 of each replica's secret, by the replica's name."""
    reason: str = ""
    """Why it has no replica, in a sentence for clients."""
    is_ending: bool = False
    """Whether it is being deleted: it answers what its replicas run, and takes no more requests."""


@dataclass(frozen=True)
class EndpointRoute:
    """Who may call an endpoint, and which deployments answer."""

    auth: str = "key"
    """`key` or `aml_token`."""
    keys: tuple[str, ...] = ()
    """The SHA-256 of each valid key."""
    token_key: str = ""
    """The key that signs this endpoint's tokens, in hexadecimal."""
    traffic: Mapping[str, int] = field(default_factory=dict[str, int])
    mirror: Mapping[str, int] = field(default_factory=dict[str, int])
    deployments: Mapping[str, DeploymentRoute] = field(default_factory=dict[str, DeploymentRoute])

    @property
    def settings(self) -> str:
        """A digest of what users have set of the endpoint: by it the server sees whether the router knows of it."""
        content = [self.auth, self.keys, self.token_key, sorted(self.traffic.items()), sorted(self.mirror.items())]
        return digest(json.dumps(content))


@dataclass(frozen=True)
class RouterListener:
    """An address at which the router listens."""

    host: str
    port: int
    for_replicas: bool = False
    endpoint: str = ""
    """Whose paths stand at the root here; "" = all endpoints, below `/endpoints/NAME`."""
    has_tls: bool = False
    certificate: str = ""
    """The path of a file with its certificate chain (PEM); "" = the table's."""
    key: str = ""
    """The path of the key of `certificate`."""


@dataclass(frozen=True)
class RoutingTable:
    """Everything that the router is told."""

    endpoints: Mapping[str, EndpointRoute] = field(default_factory=dict[str, EndpointRoute])
    listeners: tuple[RouterListener, ...] = ()
    certificate: str = ""
    """The path of a file with the certificate and its key (PEM), for listeners with TLS."""


def table_to_json(table: RoutingTable) -> str:
    """The text of the file."""
    return json.dumps({"version": VERSION, **asdict(table)}, indent=1)


def table_of(text: str) -> RoutingTable:
    """The table of a file's text. Raises ValueError."""
    try:
        document = json.loads(text)
        if document.get("version") != VERSION:
            raise ValueError(f"it has version {document.get('version')!r}, and should have {VERSION}")
        endpoints = {name: _endpoint(one) for name, one in document["endpoints"].items()}
        listeners = tuple(RouterListener(**one) for one in document["listeners"])
        return RoutingTable(endpoints, listeners, document.get("certificate", ""))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it can't be understood: {error}") from error


def _endpoint(document: dict[str, Any]) -> EndpointRoute:
    deployments = {name: DeploymentRoute(**one) for name, one in document["deployments"].items()}
    values: dict[str, Any] = {**document, "keys": tuple(document["keys"]), "deployments": deployments}
    return EndpointRoute(**values)


def write_table(folder: str, table: RoutingTable) -> None:
    """Writes the file whole, with mode 0600. Raises OSError."""
    fresh = os.path.join(folder, f".{NAME}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(table_to_json(table))
    os.replace(fresh, os.path.join(folder, NAME))
