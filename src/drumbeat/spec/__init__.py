"""What a person wrote: the job file as frozen models, with every refusal at its line.

Names are looked up on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drumbeat.spec.compute import (
        AmlTokenIdentity, CommandJobLimits, JobResourceConfiguration, JupyterLabService, ManagedIdentity, QueueSettings,
        Resources, Service, SshService, TensorBoardService, UserIdentity, VsCodeService,
    )  # fmt: skip
    from drumbeat.spec.data import Input, Output
    from drumbeat.spec.distribution import (
        MpiDistribution, PyTorchDistribution, RayDistribution, TensorFlowDistribution,
    )  # fmt: skip
    from drumbeat.spec.environment import BuildContext, Environment
    from drumbeat.spec.extensions import Checkpoints, Extensions
    from drumbeat.spec.job import CommandJob

HOMES = {
    "compute": "AmlTokenIdentity CommandJobLimits JobResourceConfiguration JupyterLabService ManagedIdentity "
    "QueueSettings Resources Service SshService TensorBoardService UserIdentity VsCodeService",
    "data": "Input Output",
    "distribution": "MpiDistribution PyTorchDistribution RayDistribution TensorFlowDistribution",
    "environment": "BuildContext Environment",
    "extensions": "Checkpoints Extensions",
    "job": "CommandJob",
}
HOME_OF = {name: home for home, names in HOMES.items() for name in names.split()}

__all__ = [
    "AmlTokenIdentity", "BuildContext", "Checkpoints", "CommandJob", "CommandJobLimits", "Environment", "Extensions",
    "Input", "JobResourceConfiguration", "JupyterLabService", "ManagedIdentity", "MpiDistribution", "Output",
    "PyTorchDistribution", "QueueSettings", "RayDistribution", "Resources", "Service", "SshService",
    "TensorBoardService", "TensorFlowDistribution", "UserIdentity", "VsCodeService",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in HOME_OF:
        raise AttributeError(f"drumbeat.spec has no {name!r}")
    return getattr(import_module(f"drumbeat.spec.{HOME_OF[name]}"), name)
