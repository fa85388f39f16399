"""Online endpoints as the API shows them: definitions with states, addresses, keys and logs.

GET, PUT, DELETE  /online-endpoints/{endpoint}                                  OnlineEndpoint -> EndpointView
GET               /online-endpoints                                             [EndpointView]
GET               /online-endpoints/{endpoint}/keys                             EndpointKeys
POST              /online-endpoints/{endpoint}/keys/{key_type}                  EndpointKeys: that one is new
POST              /online-endpoints/{endpoint}/token                            EndpointToken
GET               /online-endpoints/{endpoint}/deployments                      [DeploymentView]
GET, PUT, DELETE  /online-endpoints/{endpoint}/deployments/{deployment}         OnlineDeployment -> DeploymentView
GET               /online-endpoints/{endpoint}/deployments/{deployment}/logs    DeploymentLogs; ?lines=
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from drumbeat.model.endpoints import OnlineDeployment, OnlineEndpoint

EndpointState = Literal["creating", "updating", "ready", "failed", "deleting"]
"""`ready`: of a deployment, all its replicas of the newest generation are; of an endpoint, the router answers for it.
`failed`: the newest generation never became ready."""


@dataclass(frozen=True)
class EndpointView:
    """An endpoint."""

    definition: OnlineEndpoint
    state: EndpointState
    scoring_uri: str
    """Where clients send requests."""
    created_at: datetime
    openapi_uri: str = ""
    sentence: str = ""
    """What it waits for, or why it failed; "" = nothing."""
    deployments: tuple[str, ...] = ()
    ca: str = ""
    """The certificate (PEM) by which clients recognize the address; "" = they know its authority, or it has no TLS."""


@dataclass(frozen=True)
class DeploymentView:
    """A deployment."""

    definition: OnlineDeployment
    state: EndpointState
    created_at: datetime
    generation: int = 1
    """The number of its contents so far; what is scaled keeps it."""
    job: str = ""
    """The parent job, whose children are the replicas."""
    ready: int = 0
    """Replicas that answer, of any generation."""
    wanted: int = 0
    sentence: str = ""
    """How far it is, or why it failed."""
    notes: tuple[str, ...] = field(default=())
    """What its owner should know of it."""


@dataclass(frozen=True)
class EndpointKeys:
    """The keys of an endpoint. Both are valid."""

    primary: str
    secondary: str


@dataclass(frozen=True)
class EndpointToken:
    """A token for one endpoint with `auth_mode: aml_token`, and until when it is valid."""

    access_token: str
    expires_at: datetime


@dataclass(frozen=True)
class DeploymentLogs:
    """The last lines of what the replicas wrote."""

    text: str
