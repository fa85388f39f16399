"""drumbeat: distributed deep-learning training on machines you own.

    from drumbeat import Client, Input, Output, PyTorchDistribution, command

Everything here is loaded when it is first asked for, so that the agent, which needs none of it, starts quickly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drumbeat._version import __version__

if TYPE_CHECKING:
    from drumbeat.client import Client as Client

_OF_SPEC = (
    "BanditPolicy", "BuildContext", "Choice", "CommandJob", "Environment", "Estimator", "Input", "LogNormal",
    "LogUniform", "MedianStoppingPolicy", "MpiDistribution", "Normal", "Objective", "Output", "PipelineJob",
    "PyTorchDistribution", "QLogNormal", "QLogUniform", "QNormal", "QUniform", "RandInt", "RayDistribution",
    "SweepJob", "TensorFlowDistribution", "TruncationSelectionPolicy", "Uniform", "command", "load_job", "pipeline",
)  # fmt: skip

__all__ = ["Client", "__version__", *_OF_SPEC]  # noqa: PLE0604 (names, though made elsewhere)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    import importlib

    if name == "Client":
        return importlib.import_module("drumbeat.client").Client
    if name in _OF_SPEC:
        return getattr(importlib.import_module("drumbeat.dialect"), name)
    raise AttributeError(f"module 'drumbeat' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
