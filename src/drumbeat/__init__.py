"""drumbeat: distributed deep-learning training on machines you own.

    from drumbeat import Client, Input, Output, PyTorchDistribution, command

In a rank's script, `drumbeat.log(loss=0.5, step=3)` logs metrics and an `Image`, `Table`, `Histogram`, `Text`;
`drumbeat.primary("loss", "min")` says which of them counts.

Everything here is loaded when it is first asked for, so that the agent, which needs none of it, starts quickly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drumbeat._version import __version__

if TYPE_CHECKING:
    from drumbeat.client import Client as Client
    from drumbeat.rank.media import Histogram as Histogram
    from drumbeat.rank.media import Image as Image
    from drumbeat.rank.media import Table as Table
    from drumbeat.rank.media import Text as Text
    from drumbeat.rank.metric_log import log as log
    from drumbeat.rank.parameters import primary as primary

_OF_DIALECT = (
    "AmlCompute", "AssetTypes", "BanditPolicy", "BayesianSampling", "BuildContext", "Choice", "CommandComponent",
    "CommandJob", "CommandJobLimits", "CronTrigger", "Environment", "Estimator", "GridSampling", "Input",
    "InputOutputModes", "JobResourceConfiguration", "JobSchedule", "LogNormal", "LogUniform", "MedianStoppingPolicy",
    "MpiDistribution", "Normal", "Objective", "Output", "PipelineJob", "PyTorchDistribution", "QLogNormal",
    "QLogUniform", "QNormal", "QUniform", "QueueSettings", "RandInt", "Randint", "RandomSampling", "RayDistribution",
    "RecurrencePattern", "RecurrenceTrigger", "SweepJob", "SweepJobLimits", "TensorFlowDistribution",
    "TruncationSelectionPolicy", "Uniform", "command", "load_component", "load_data", "load_environment", "load_job",
    "load_schedule", "pipeline",
)  # fmt: skip

_AZURE_NAMES = {
    "AmlTokenConfiguration": "AmlTokenIdentity",
    "Data": "DataAsset",
    "JupyterLabJobService": "JupyterLabService",
    "ManagedIdentityConfiguration": "ManagedIdentity",
    "Model": "ModelAsset",
    "ResourceConfiguration": "Resources",
    "SshJobService": "SshService",
    "TensorBoardJobService": "TensorBoardService",
    "UserIdentityConfiguration": "UserIdentity",
    "VsCodeJobService": "VsCodeService",
}
"""What Azure's SDK calls classes that have another name here."""

_NOT_YET = {
    "MLClient": "import it from drumbeat.ml, or use drumbeat.Client: client.submit(job), client.wait(name)",
    "automl": "write the training as a command",
    "spark": "write the training as a command",
    **dict.fromkeys(("Workspace", "load_model"), "import it from drumbeat.ml"),
    **dict.fromkeys(
        (
            "BatchDeployment", "BatchEndpoint", "CodeConfiguration", "ComputeInstance", "KubernetesCompute",
            "KubernetesOnlineDeployment", "KubernetesOnlineEndpoint", "ManagedOnlineDeployment",
            "ManagedOnlineEndpoint", "ModelBatchDeployment",
        ),
        "see docs/features.md for what it has",
    ),
}  # fmt: skip
"""Names of Azure's SDK that this version doesn't have, and what to do instead."""

_MEDIA = ("Histogram", "Image", "Table", "Text")
"""What `log` takes beside numbers."""

__all__ = ["Client", "__version__", "log", "primary", *_MEDIA, *_OF_DIALECT, *_AZURE_NAMES]  # noqa: PLE0604 (names, though made elsewhere)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    import importlib

    if name == "Client":
        return importlib.import_module("drumbeat.client").Client
    if name == "log":
        # A loop calls it very often: from now on it is found without this function.
        globals()[name] = importlib.import_module("drumbeat.rank.metric_log").log
        return globals()[name]
    if name in _MEDIA:
        return getattr(importlib.import_module("drumbeat.rank.media"), name)
    if name == "primary":
        return importlib.import_module("drumbeat.rank.parameters").primary
    if name in _OF_DIALECT or name in _AZURE_NAMES:
        return getattr(importlib.import_module("drumbeat.jobfile"), _AZURE_NAMES.get(name, name))
    if name in _NOT_YET:
        raise ImportError(f"this version of drumbeat has no {name}: {_NOT_YET[name]}")
    raise AttributeError(f"module 'drumbeat' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
