"""Batch endpoints and deployments as the API shows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class BatchEndpointView:
    """A name under which deployments score data."""

    name: str
    default_deployment: str = ""
    """The deployment that an invocation runs which names none; "" = there is none."""
    description: str = ""
    tags: dict[str, str] = field(default_factory=dict[str, str])
    document: dict[str, Any] = field(default_factory=dict[str, Any])
    """The endpoint in the form of its file."""


@dataclass(frozen=True)
class BatchDeploymentView:
    """What an invocation of a batch endpoint runs."""

    name: str
    endpoint: str
    type: str
    """`model` or `pipeline`."""
    component: str
    """The registered component that its jobs run."""
    compute: str = ""
    instance_count: int = 1
    model: str = ""
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    """Settings of the runner, as `drumbeat.parallel` takes them."""
    pipeline_settings: dict[str, Any] = field(default_factory=dict[str, Any])
    output_file_name: str = ""
    description: str = ""
    tags: dict[str, str] = field(default_factory=dict[str, str])
    document: dict[str, Any] = field(default_factory=dict[str, Any])
    """The deployment as it is kept."""
