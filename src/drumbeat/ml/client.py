"""`MLClient`: a drumbeat server with the operations of Azure's SDK."""

from __future__ import annotations

import json
import os
import weakref
from functools import cached_property
from pathlib import Path
from typing import Any

from drumbeat.client import Client
from drumbeat.jobfile.builders.command import Command
from drumbeat.jobfile.builders.component import ComponentFunction
from drumbeat.jobfile.builders.pipeline import Pipeline
from drumbeat.jobfile.builders.sweep import Sweep
from drumbeat.jobfile.environments.environment_keys import Environment
from drumbeat.jobfile.job.job import JobKeys
from drumbeat.jobfile.pipelines.component import ComponentKeys
from drumbeat.ml.calls.batch import BatchDeploymentOperations, BatchEndpointOperations
from drumbeat.ml.calls.components import ComponentOperations
from drumbeat.ml.calls.computes import ComputeOperations
from drumbeat.ml.calls.data import DataOperations, ModelOperations
from drumbeat.ml.calls.datastores import DatastoreOperations
from drumbeat.ml.calls.endpoints import OnlineDeploymentOperations, OnlineEndpointOperations
from drumbeat.ml.calls.environments import EnvironmentOperations
from drumbeat.ml.calls.jobs import JobOperations
from drumbeat.ml.calls.schedules import ScheduleOperations
from drumbeat.ml.calls.workspaces import WorkspaceOperations
from drumbeat.ml.errors import with_azure_errors
from drumbeat.ml.objects.assets import Data, Model
from drumbeat.ml.objects.batch import BatchDeployment, BatchEndpoint, PipelineComponentBatchDeployment
from drumbeat.ml.objects.datastores import Datastore
from drumbeat.ml.objects.endpoints import OnlineDeployment, OnlineEndpoint
from drumbeat.ml.objects.environments import RegisteredEnvironment
from drumbeat.ml.objects.jobs import Job
from drumbeat.ml.objects.schedules import JobSchedule
from drumbeat.ml.poller import LROPoller
from drumbeat.ml.public_names import FAMILIES, OPERATIONS_REFUSED
from drumbeat.model.errors import SpecError

CONFIG = "config.json"
WORKSPACE = "drumbeat"
PLACES_OF_CONFIG = ("", ".azureml", ".aml_config")


class MLClient:
    """The server of `drumbeat.Client()`, with Azure's operations. Azure's arguments are taken and have no effect.

    credential: is never asked. subscription_id, resource_group_name, workspace_name: are kept as attributes.
    """

    def __init__(
        self,
        credential: object = None,
        subscription_id: str | None = None,
        resource_group_name: str | None = None,
        workspace_name: str | None = None,
        registry_name: str | None = None,
        **keys: Any,
    ) -> None:
        del credential, registry_name, keys
        self.subscription_id, self.resource_group_name = subscription_id, resource_group_name
        self.workspace_name = workspace_name or WORKSPACE
        self.jobs = JobOperations(self._connected)
        self.data = DataOperations(self._connected)
        self.models = ModelOperations(self._connected)
        self.environments = EnvironmentOperations(self._connected)
        self.components = ComponentOperations(self._connected)
        self.compute = ComputeOperations(self._connected)
        self.datastores = DatastoreOperations(self._connected)
        self.schedules = ScheduleOperations(self._connected)
        self.online_endpoints = OnlineEndpointOperations(self._connected)
        self.online_deployments = OnlineDeploymentOperations(self._connected)
        self.batch_endpoints = BatchEndpointOperations(self._connected)
        self.batch_deployments = BatchDeploymentOperations(self._connected)
        self.workspaces = WorkspaceOperations(self._connected, self.workspace_name)

    @classmethod
    def from_config(
        cls,
        credential: object = None,
        *,
        path: str | os.PathLike[str] | None = None,
        file_name: str | None = None,
        **keys: Any,
    ) -> MLClient:
        """Returns a client; names are those of `config.json` here or above, where there is one."""
        config = _config(Path(path) if path else Path.cwd(), file_name or CONFIG)
        names = {
            "subscription_id": config.get("subscription_id"),
            "resource_group_name": config.get("resource_group"),
            "workspace_name": config.get("workspace_name"),
        }
        return cls(credential, **names, **keys)

    @cached_property
    def client(self) -> Client:
        """Drumbeat's own client, for what Azure's has no words for."""
        client = Client()
        weakref.finalize(self, client.close)  # Scripts for Azure's SDK close nothing.
        return client

    def _connected(self) -> Client:
        return self.client

    @with_azure_errors
    def create_or_update(self, entity: Any, **keys: Any) -> Any:
        """Makes what is given: a job, data, a model, an environment, a component, a datastore."""
        match entity:
            case Job() | JobKeys() | Command() | Sweep() | Pipeline():
                return self.jobs.create_or_update(entity, **keys)
            case Model():
                return self.models.create_or_update(entity)
            case Data():
                return self.data.create_or_update(entity)
            case Environment() | RegisteredEnvironment():
                return self.environments.create_or_update(entity)
            case Datastore():
                return self.datastores.create_or_update(entity)
            case ComponentFunction() | ComponentKeys():
                return self.components.create_or_update(entity, **keys)
            case _ if hasattr(entity, "to_node"):
                fix = "Call it in a @pipeline function, and submit what that gives."
                raise SpecError("a step runs in a pipeline only", fix=fix)
            case _ if callable(entity):
                return self.components.create_or_update(entity, **keys)
            case _:
                raise SpecError(f"{type(entity).__name__} isn't something that drumbeat makes")

    @with_azure_errors
    def begin_create_or_update(self, entity: Any, **keys: Any) -> LROPoller[Any]:
        """Makes a compute, a schedule, an endpoint or a deployment."""
        match entity:
            case OnlineEndpoint():
                return self.online_endpoints.begin_create_or_update(entity)
            case JobSchedule():
                return self.schedules.begin_create_or_update(entity)
            case OnlineDeployment():
                return self.online_deployments.begin_create_or_update(entity, **keys)
            case BatchEndpoint():
                return self.batch_endpoints.begin_create_or_update(entity)
            case BatchDeployment() | PipelineComponentBatchDeployment():
                return self.batch_deployments.begin_create_or_update(entity, **keys)
            case _:
                return self.compute.begin_create_or_update(entity)

    def __getattr__(self, name: str) -> Any:
        if name in OPERATIONS_REFUSED:
            raise AttributeError(f"MLClient.{name}: {FAMILIES[OPERATIONS_REFUSED[name]]}")
        raise AttributeError(f"MLClient has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"MLClient(workspace_name={self.workspace_name!r})"


def _config(start: Path, name: str) -> dict[str, Any]:
    """Returns what the file says; {} where there is none from the folder upwards. start: a folder, or the file."""
    if start.is_file():
        return json.loads(start.read_text())
    for folder in (start.absolute(), *start.absolute().parents):
        for place in (folder / part / name for part in PLACES_OF_CONFIG):
            if place.is_file():
                return json.loads(place.read_text())
    return {}
