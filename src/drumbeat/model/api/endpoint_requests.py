"""Requests of online endpoints as the API shows them.

GET   /endpoint-requests                        [DeploymentRequests]; ?endpoint= &curves=
POST  /online-endpoints/{endpoint}/requests     SampleRequest -> SampleAnswer
"""

from __future__ import annotations

from dataclasses import dataclass, field

from drumbeat.model.api.endpoints import DeploymentView
from drumbeat.model.states import State


@dataclass(frozen=True)
class RequestRates:
    """Requests of an interval, per second; times are estimated from a histogram."""

    requests_per_s: float = 0.0
    """Answered ones."""
    errors_per_s: float = 0.0
    """Those whose answer had a status of 400 or more."""
    p50_ms: float | None = None
    """None = there were no requests."""
    p95_ms: float | None = None


@dataclass(frozen=True)
class RequestCurve:
    """Requests of one interval after the other, the newest last."""

    times: tuple[float, ...] = ()
    """The ends of the intervals, in seconds of Unix time."""
    rates: tuple[RequestRates, ...] = ()


@dataclass(frozen=True)
class ReplicaRequests:
    """A replica of a deployment: its job, and the requests that it runs."""

    job: str
    state: State | None
    """None = its job isn't submitted yet."""
    generation: int
    is_ready: bool
    """Whether it takes requests."""
    sentence: str = ""
    """Why its job is in that state."""
    running: int = 0


@dataclass(frozen=True)
class DeploymentRequests:
    """A deployment of an online endpoint, and the requests that it answers."""

    deployment: DeploymentView
    model: str = ""
    """The exact version that the newest generation runs, as `azureml:NAME:VERSION`, or its address; "" = none."""
    now: RequestRates = field(default_factory=RequestRates)
    """Of the last half minute."""
    requests: int = 0
    """Answered since the router began."""
    errors: int = 0
    running: int = 0
    waiting: int = 0
    replicas: tuple[ReplicaRequests, ...] = ()
    curve: RequestCurve = field(default_factory=RequestCurve)
    """Of the last hour, as far as this server has seen it; empty unless asked for."""


@dataclass(frozen=True)
class SampleRequest:
    """A request that the server sends to an endpoint for a user."""

    body: str
    """Sent as `application/json`."""
    deployment: str = ""
    """Which deployment answers; "" = by the endpoint's traffic."""


@dataclass(frozen=True)
class SampleAnswer:
    """What an endpoint answered."""

    status: int
    seconds: float
    body: str
    content_type: str = ""
    deployment: str = ""
    """The deployment that answered."""
    is_whole: bool = True
    """Whether `body` is all of the answer."""
