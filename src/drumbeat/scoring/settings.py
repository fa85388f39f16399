"""What a scoring server is started with: a file of settings, the variables of Azure's server, and options."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import urlsplit

from drumbeat.model.scoring_tokens import (
    CA_VARIABLE,
    PROGRAM_VARIABLE,
    SECRET_VARIABLE,
    SERVERS_VARIABLE,
    SETTINGS_VARIABLE,
)
from drumbeat.scoring.scorer import ScorerError


@dataclass(frozen=True)
class RouterAccess:
    """How a replica calls the router, and proves which replica of which deployment it is."""

    addresses: tuple[str, ...]
    """`unix:PATH` on the router's machine, `https://HOST:PORT` elsewhere."""
    endpoint: str
    deployment: str
    replica: str
    secret: str = ""
    ca: str = ""
    """The certificate (PEM) of the authority by which routers are recognized."""
    connections: int = 1
    """`max_concurrent_requests_per_instance`: each connection is a permit for one request."""


@dataclass(frozen=True)
class RouteProbe:
    """A route of a program behind this server, and how often it is asked, in seconds."""

    path: str = "/"
    initial_delay: float = 10
    period: float = 10
    timeout: float = 2
    failure_threshold: int = 30


@dataclass(frozen=True)
class ProgramBehind:
    """A program with routes of its own, such as a container's server, at a port of this machine's loopback."""

    port: int
    command: tuple[str, ...] = ()
    """Starts it; empty = something else starts it."""
    readiness: RouteProbe = field(default_factory=RouteProbe)
    liveness: RouteProbe = field(default_factory=RouteProbe)
    name: str = ""
    """What messages call it; "" = the first word of its command."""
    scoring_path: str = ""
    """The path at which it takes what clients send to `/score`; "" = the same one."""


@dataclass(frozen=True)
class ScoringSettings:
    """Everything that a scoring server is told."""

    app_root: str = "."
    entry_script: str = ""
    model_dir: str = ""
    listen: str = ""
    """`HOST:PORT` where it listens itself, without a router."""
    router: RouterAccess | None = None
    behind: ProgramBehind | None = None
    worker_count: int = 1
    """Processes, each with a model of its own, as Azure's WORKER_COUNT."""
    threads: int = 1
    """Runs at once in one process; more than 1 only for scripts that are thread-safe."""
    timeout_ms: int = 3_600_000
    max_batch_size: int = 1
    max_wait_ms: float = 2.0
    stuck_after_s: float = 300.0
    """A run that goes on for so long after its time limit ends the process."""
    drain_s: float = 30.0
    """At SIGTERM, requests under way have this time."""


def read_settings(path: str, environment: Mapping[str, str]) -> ScoringSettings:
    """The settings of a file ("" = none), else of the variable of replicas, over those of the environment.

    Raises ScorerError.
    """
    given: dict[str, Any] = {}
    if not path and (text := environment.get(SETTINGS_VARIABLE)):
        given = _replica_settings(text, environment)
    if path:
        try:
            with open(path, encoding="utf-8") as file:
                given = json.load(file)
        except (OSError, ValueError) as error:
            raise ScorerError(f"The settings in {path} can't be read: {error}") from error
    try:
        return settings_of({**_from_environment(environment), **given})
    except (TypeError, ValueError) as error:
        raise ScorerError(f"The settings {path or 'of the environment'} are wrong: {error}") from error


def settings_of(given: Mapping[str, Any]) -> ScoringSettings:
    """Settings of plain values. Raises TypeError and ValueError."""
    values = dict(given)
    unknown = set(values) - {one.name for one in fields(ScoringSettings)}
    if unknown:
        raise ValueError(f"unknown: {', '.join(sorted(unknown))}")
    if (router := values.get("router")) is not None:
        access: dict[str, Any] = {**router, "addresses": tuple(router["addresses"])}
        values["router"] = RouterAccess(**access)
    if (behind := values.get("behind")) is not None:
        more: dict[str, Any] = {
            name: RouteProbe(**behind[name]) for name in ("readiness", "liveness") if name in behind
        }
        more |= {name: str(behind[name]) for name in ("name", "scoring_path") if name in behind}
        values["behind"] = ProgramBehind(behind["port"], tuple(behind.get("command", ())), **more)
    return ScoringSettings(**values)


def _replica_settings(text: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """The settings that the job of a replica sets, with what the agent of its node gives it.

    Where that agent calls the server by TLS, the router is at the same hosts, at a port of its own.
    """
    try:
        given: dict[str, Any] = json.loads(text)
        router: dict[str, Any] = {**given["router"], "secret": environment.get(SECRET_VARIABLE, "")}
        port = int(router.pop("port", 0))
        hosts = [urlsplit(one).hostname or "" for one in environment.get(SERVERS_VARIABLE, "").split() if "://" in one]
        if hosts and port:
            shown = [f"[{host}]" if ":" in host else host for host in dict.fromkeys(hosts)]
            router |= {
                "addresses": [f"https://{host}:{port}" for host in shown],
                "ca": environment.get(CA_VARIABLE, ""),
            }
        if program := environment.get(PROGRAM_VARIABLE):
            given["behind"] = {**given["behind"], **json.loads(program)}
        return {**given, "router": router}
    except (ValueError, TypeError, KeyError) as error:
        raise ScorerError(f"The settings in {SETTINGS_VARIABLE} can't be read: {error!r}") from error


_VARIABLES = {"AML_APP_ROOT": "app_root", "AZUREML_ENTRY_SCRIPT": "entry_script", "AZUREML_MODEL_DIR": "model_dir"}
_NUMBERS = {"WORKER_COUNT": "worker_count", "SCORING_TIMEOUT_MS": "timeout_ms"}


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {key: environment[name] for name, key in _VARIABLES.items() if environment.get(name)}
    for name, key in _NUMBERS.items():
        if text := environment.get(name):
            if not text.isdigit() or int(text) < 1:
                raise ValueError(f"{name} is {text!r}, and should be a whole number from 1")
            values[key] = int(text)
    return values


def shares(total: int, parts: int) -> Sequence[int]:
    """Divides connections among processes, as evenly as possible; no process gets none."""
    count = max(1, min(parts, total))
    return [total // count + (number < total % count) for number in range(count)]
