"""Names the adapters and puts them together. Only entry points import this."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drumbeat.engines.local import LocalEngine
from drumbeat.jobfile.compute.computes import Compute
from drumbeat.jobfile.compute.kubernetes import KubernetesCompute
from drumbeat.jobfile.compute.netlab import NetlabCompute
from drumbeat.jobfile.compute.ray import RayCompute
from drumbeat.jobfile.compute.slurm import SlurmCompute
from drumbeat.jobfile.compute.ssh import SshCompute, SshHost
from drumbeat.model.api.space import SpaceKind
from drumbeat.model.errors import RefusedError
from drumbeat.ports.engines import Engine
from drumbeat.ports.space import MachineCaches
from drumbeat.server import scoring_address
from drumbeat.server.computes.agent_addresses import Endpoints
from drumbeat.server.control import Control, Setting
from drumbeat.server.data.datastores import ALWAYS_THERE, Datastores
from drumbeat.server.database import SqlStore
from drumbeat.server.endpoints.router_program import RouterProgram
from drumbeat.server.home import first_written, shared_folder
from drumbeat.server.home_copy import require_original
from drumbeat.server.metrics.metrics import MetricPlace
from drumbeat.server.metrics.mlflow_choice import MlflowFile
from drumbeat.server.metrics.tables import SqlMetricStore
from drumbeat.server.process.clock import SystemClock
from drumbeat.server.sweeps.samplers.bayesian import BayesianSamplers


def make_control(home: Path, endpoints: Endpoints) -> Control:
    """A control room whose state lies in `home`, with the engine of this machine.

    DRUMBEAT_DATABASE: the URL of a database that several servers are over, as they are over the folder DRUMBEAT_SHARED:
    one is active, and the others stand by. Without it the database is a file in `home`, which is locked: no other
    server can be over it.
    """
    from drumbeat.server.data.stores import StoreAccess
    from drumbeat.server.database import LeaseRules, make_store
    from drumbeat.server.home_copy import read_era
    from drumbeat.server.home_folder import FolderArtifacts
    from drumbeat.server.metrics.event_files.reader import TensorBoardReader
    from drumbeat.server.nodes.unknown_jobs import UnknownJobs

    clock = SystemClock()
    url = os.environ.get("DRUMBEAT_DATABASE")
    shared = shared_folder(home, os.environ)
    shared.mkdir(0o700, parents=True, exist_ok=True)
    key = _key(shared / "key")
    store = make_store(url or home / "drumbeat.db", LeaseRules(is_alone=not url))
    if url:
        _require_one_key(store, key)
    else:
        _require_original(home, store)
    datastores = _datastores(store, shared)
    context = EngineContext(shared, lambda: datastores.without_secrets(os.environ))
    local = LocalEngine(_local_nodes(shared), shared / "jobs", inherited=context.inherited)
    return Control(
        Setting(
            store=store,
            artifacts=FolderArtifacts(shared),
            engines={"local": local},
            clock=clock,
            key=key,
            registry_key=lambda: registry_key(shared),
            programs=str(Path(sys.executable).parent),
            make_engine=lambda spec: make_engine(spec, context),
            data=StoreAccess(datastores.all, partial_writes=home / "halves"),
            datastores=datastores,
            endpoints=endpoints,
            metrics=_metrics(url or home / "metrics.db"),
            event_reader=TensorBoardReader(),
            mlflow=_mlflow(home, os.environ),
            samplers=BayesianSamplers(),
            router=RouterProgram(home / "router", endpoints.listeners, scoring_address.kept(home)),
            caches=_caches(home, shared, has_file=not url),
            unknown_jobs=UnknownJobs(home / "unknown-jobs.json" if read_era(shared) else None),
        )
    )


def _metrics(place: str | Path) -> MetricPlace:
    """Returns where metrics are kept: a file, or a schema in the servers' PostgreSQL database."""

    def open_store() -> SqlMetricStore:
        from drumbeat.server.metrics.tables import make_metric_store

        return make_metric_store(place)

    return MetricPlace(open_store, lambda: place.exists() if isinstance(place, Path) else True)


def _mlflow(home: Path, environ: Mapping[str, str]) -> MlflowFile:
    """Returns which real MLflow server is named for this server, if any. Raises RefusedError.

    It is kept in the home and not in the database: each server over a database is told for itself.
    """
    from drumbeat.server.metrics.mlflow_choice import MlflowFile

    return MlflowFile(home / "mlflow.json", environ)


def _caches(home: Path, shared: Path, *, has_file: bool) -> MachineCaches:
    """What this machine keeps for jobs, and what else the server has on its own disk."""
    from drumbeat.node.inputs.cache_usage import LocalCaches

    measured: list[tuple[SpaceKind, str, str]] = [
        ("datastore", name, str(shared / "datastores" / name)) for name in ALWAYS_THERE
    ]
    if has_file:
        measured.append(("database", "drumbeat.db", str(home / "drumbeat.db")))
        measured.append(("database", "metrics.db", str(home / "metrics.db")))
    return LocalCaches(str(shared), measured)


def _datastores(store: SqlStore, shared: Path) -> Datastores:
    """Those that users make, and the folders that are always there."""
    folder = shared / "datastores"
    for name in ALWAYS_THERE:
        (folder / name).mkdir(0o700, parents=True, exist_ok=True)
    return Datastores(store, _key(shared / "key"), str(folder))


@dataclass(frozen=True)
class EngineContext:
    """What engines are given of this server."""

    shared: Path
    """The folder with `nodes` and `jobs`."""
    inherited: Callable[[], Mapping[str, str]]
    """Returns what agents that are started from here have of this process's environment."""


def make_engine(spec: Compute, context: EngineContext) -> Engine:
    """The engine of a compute that a user described. Raises RefusedError, EngineError."""
    make = ENGINES.get(spec.type)
    if make is None:
        raise RefusedError(f"computes of type {spec.type} aren't supported yet", where="type")
    return make(spec, context)


def _netlab(spec: NetlabCompute, context: EngineContext) -> Engine:
    from drumbeat.engines.netlab.engine import NetlabEngine
    from drumbeat.engines.netlab.lab import Lab

    lab = Lab(context.shared / "labs" / spec.name, spec.name, spec.nodes, bandwidth=spec.bandwidth, subnet=spec.subnet)
    cpus = spec.cpus or len(os.sched_getaffinity(0))
    return NetlabEngine(lab, cpus, context.shared / "jobs", context.inherited, on=spec.min_instances)


def _ssh(spec: SshCompute, context: EngineContext) -> Engine:
    from drumbeat.engines.remote_host import Host
    from drumbeat.engines.ssh.engine import SshEngine
    from drumbeat.engines.ssh.login import Login
    from drumbeat.engines.ssh.ssh_host import SshReach

    own = f"{spec.folder}/{spec.name}-{_mark(context)}"  # The host may be in other computes too, and other servers'.

    def host(one: SshHost) -> Host:
        login = Login(
            one.address,
            one.port or spec.port,
            one.user or spec.user or "",
            spec.identity_file or "",
            tuple(spec.options),
        )
        gpus = None if one.gpus is None else tuple(one.gpus)
        reach = SshReach(login, spec.python, spec.folder)
        gangs = f"{own}/gangs/{re.sub('[:%]', '_', one.title)}"  # The hosts may share a home.
        return Host(one.title, reach, gangs, f"{own}/jobs", cpus=one.cpus, gpus=gpus, leaving=spec.leaving or "")

    return SshEngine([host(one) for one in spec.hosts], spec.server_address or "")


def _slurm(spec: SlurmCompute, context: EngineContext) -> Engine:
    from drumbeat.engines.slurm.engine import SlurmEngine

    return SlurmEngine(spec, _mark(context))


def _kubernetes(spec: KubernetesCompute, context: EngineContext) -> Engine:
    from drumbeat.engines.kubernetes.engine import connected_engine

    return connected_engine(spec, _mark(context))


def _ray(spec: RayCompute, context: EngineContext) -> Engine:
    from drumbeat.engines.ray.engine import RayEngine

    return RayEngine(spec, _mark(context))


ENGINES: dict[str, Callable[[Any, EngineContext], Engine]] = {
    "netlab": _netlab,
    "ssh": _ssh,
    "slurm": _slurm,
    "kubernetes": _kubernetes,
    "ray": _ray,
}
"""Type of a compute to what makes its engine, given its spec (a class of `jobfile.compute`)."""


def _mark(context: EngineContext) -> str:
    """Tells what is this server's from what the same user's other servers have on the same hosts."""
    return hashlib.sha256(b"mark" + _key(context.shared / "key")).hexdigest()[:6]


def _key(path: Path) -> bytes:
    """The servers' own secret, made at the first start."""
    return first_written(path, secrets.token_bytes(32))


def registry_key(shared: Path) -> bytes:
    """The private key by which models are signed, made when the first one is; mode 0600."""
    from drumbeat.core.models.statement import new_key

    path = shared / "registry-key.pem"
    return path.read_bytes() if path.exists() else first_written(path, new_key())


def _require_one_key(store: SqlStore, key: bytes) -> None:
    """Servers with another key can't end each other's nodes, nor open their credentials: each job would be run twice.

    Raises RefusedError, and closes the store.
    """
    own = hashlib.sha256(b"fingerprint" + key).hexdigest()[:16]
    try:
        if store.agreed("key", own) == own:
            return
    except BaseException:
        store.close()
        raise
    store.close()
    what = "the servers of this database have another folder, and another key in it"
    raise RefusedError(what, where="DRUMBEAT_DATABASE", fix="Give this one the same: DRUMBEAT_SHARED=FOLDER.")


def _require_original(home: Path, store: SqlStore) -> None:
    """A copy of a home would take the jobs of the server there for its own. Raises RefusedError; closes the store."""
    try:
        require_original(home, lambda: [record.job.name for record in store.unfinished()])
    except BaseException:
        store.close()
        raise


def _local_nodes(shared: Path) -> Path:
    """The folder with the nodes of the compute `local`, which is the machine of the active server.

    Servers on other machines than the first one have folders of their own: what is in one means nothing elsewhere.
    """
    here = socket.gethostname()
    if first_written(shared / "machine", here.encode()) == here.encode():
        return shared / "nodes"
    return shared / f"nodes.{here}"
