"""What the database keeps of endpoints and deployments. Keys are sealed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from drumbeat.model import wire
from drumbeat.model.endpoints import OnlineDeployment, OnlineEndpoint
from drumbeat.model.errors import NotFoundError
from drumbeat.server.database import SqlStore
from drumbeat.server.resources.records import Resource
from drumbeat.server.resources.sealing import Seal

ENDPOINT, DEPLOYMENT = "online_endpoint", "online_deployment"
"""Their kinds in the table of resources."""


@dataclass(frozen=True)
class EndpointSecrets:
    """The two keys of an endpoint, and the key that signs its tokens, in hexadecimal."""

    primary: str = field(repr=False)
    secondary: str = field(repr=False)
    token_key: str = field(repr=False)


@dataclass(frozen=True)
class StoredEndpoint:
    """An endpoint."""

    definition: OnlineEndpoint
    secrets: EndpointSecrets
    created_at: datetime
    is_deleting: bool = False
    """Whether it is removed once its deployments are gone."""
    user: str = ""
    """Who created it."""


@dataclass(frozen=True)
class StoredDeployment:
    """A deployment: the newest definition, and the definitions of the generations that may run."""

    definition: OnlineDeployment
    job: str
    """The name of its parent job."""
    created_at: datetime
    generation: int = 1
    generations: dict[str, OnlineDeployment] = field(default_factory=dict[str, OnlineDeployment])
    """What the replicas of a generation run, by its number: with exact versions of models."""
    user: str = ""
    """Who created it: its jobs are theirs."""
    is_deleting: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """The names of its endpoint and its own."""
        return self.definition.endpoint_name, self.definition.name


class EndpointCatalog:
    """Reads and writes endpoints and deployments. key: the server's, by which secrets are sealed."""

    def __init__(self, store: SqlStore, key: bytes) -> None:
        self._store, self._seal = store, Seal(key, "online endpoint")

    # --- endpoints --------------------------------------------------------------------------------------------
    def endpoints(self) -> list[StoredEndpoint]:
        """Returns all endpoints, by name."""
        return [self._endpoint(one) for one in sorted(self._store.resources(ENDPOINT), key=lambda one: one.name)]

    def endpoint(self, name: str) -> StoredEndpoint:
        """Returns an endpoint. Raises NotFoundError."""
        stored = self.find_endpoint(name)
        if stored is None:
            names = ", ".join(one.name for one in self._store.resources(ENDPOINT))
            listing = f"; there are {names}" if names else ""
            raise NotFoundError(
                f"there is no online endpoint {name}{listing}", fix="Create it: drumbeat online-endpoint create -f FILE"
            )
        return stored

    def find_endpoint(self, name: str) -> StoredEndpoint | None:
        """Returns an endpoint, None = there is none of this name."""
        stored = self._store.resources(ENDPOINT, name)
        return self._endpoint(stored[0]) if stored else None

    def put_endpoint(self, endpoint: StoredEndpoint) -> None:
        """Writes an endpoint, in place of the one of its name."""
        name = endpoint.definition.name
        definition = wire.to_wire(endpoint.definition)
        document = {"definition": definition, "is_deleting": endpoint.is_deleting, "user": endpoint.user}
        secrets = self._seal.close(name, wire.to_wire(endpoint.secrets))
        self._store.put_resource(
            Resource(ENDPOINT, name, document=document, created_at=endpoint.created_at, sealed=secrets)
        )

    def remove_endpoint(self, name: str) -> None:
        """Removes an endpoint with its keys."""
        self._store.remove_resource(ENDPOINT, name)

    def _endpoint(self, stored: Resource) -> StoredEndpoint:
        secrets = self._seal.open(stored.name, stored.sealed)
        return StoredEndpoint(
            wire.from_wire(OnlineEndpoint, stored.document["definition"]),
            wire.from_wire(EndpointSecrets, secrets),
            stored.created_at,
            bool(stored.document.get("is_deleting")),
            str(stored.document["user"]),
        )

    # --- deployments ------------------------------------------------------------------------------------------
    def deployments(self, endpoint: str = "") -> list[StoredDeployment]:
        """Returns the deployments of an endpoint, or of all (""), by name."""
        stored = sorted(self._store.resources(DEPLOYMENT), key=lambda one: one.name)
        return [_deployment(one) for one in stored if not endpoint or one.name.startswith(f"{endpoint}/")]

    def deployment(self, endpoint: str, name: str) -> StoredDeployment:
        """Returns a deployment. Raises NotFoundError."""
        stored = self.find_deployment(endpoint, name)
        if stored is None:
            self.endpoint(endpoint)
            names = ", ".join(one.definition.name for one in self.deployments(endpoint))
            has = f"it has {names}" if names else "it has none"
            raise NotFoundError(
                f"the endpoint {endpoint} has no deployment {name}; {has}",
                fix="Create it: drumbeat online-deployment create -f FILE",
            )
        return stored

    def find_deployment(self, endpoint: str, name: str) -> StoredDeployment | None:
        """Returns a deployment, None = there is none of this name."""
        stored = self._store.resources(DEPLOYMENT, f"{endpoint}/{name}")
        return _deployment(stored[0]) if stored else None

    def put_deployment(self, deployment: StoredDeployment) -> None:
        """Writes a deployment, in place of the one of its name."""
        document = wire.to_wire(deployment)
        name = "/".join(deployment.key)
        self._store.put_resource(Resource(DEPLOYMENT, name, document=document, created_at=deployment.created_at))

    def remove_deployment(self, deployment: StoredDeployment) -> None:
        """Removes a deployment."""
        self._store.remove_resource(DEPLOYMENT, "/".join(deployment.key))


def _deployment(stored: Resource) -> StoredDeployment:
    return wire.from_wire(StoredDeployment, stored.document)
