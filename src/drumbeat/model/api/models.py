"""Registered models as the API shows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from drumbeat.model.api.data import DataUse


@dataclass(frozen=True)
class ModelView:
    """A version of a registered model."""

    name: str
    version: str
    type: str
    """`custom_model`, `mlflow_model` or `triton_model`."""
    uri: str
    """Where its files are."""
    created_at: datetime
    description: str = ""
    stage: str = ""
    """Free text, such as `Production`; "" = none."""
    aliases: tuple[str, ...] = ()
    tags: dict[str, str] = field(default_factory=dict[str, str])
    properties: dict[str, str] = field(default_factory=dict[str, str])
    flavors: dict[str, Any] = field(default_factory=dict[str, Any])
    is_archived: bool = False
    is_file: bool = False
    """Whether the model is one file, at `uri`."""
    files: int = 0
    size: int = 0
    """Bytes of all files."""
    digest: str = ""
    """The SHA-256 of the SHA-256 of its files; "" = the server didn't read them."""
    made_by: str = ""
    """The job that made it; "" = a person registered it."""
    run: str = ""
    """The MLflow run that logged it; "" = none."""
    source: str = ""
    """What MLflow's client registered; "" = it was registered otherwise."""
    statement: str = ""
    """The SHA-256 of the signed statement; "" = none was signed."""
    scan: str = ""
    """What the scanner of pickles said, in a sentence."""
    problem: str = ""
    """Why there is no statement; "" = there is one."""
    lineage: dict[str, Any] = field(default_factory=dict[str, Any])
    """What the statement says of its origin; only where one version is asked for."""
    used_by: tuple[DataUse, ...] = ()
    """The jobs that named it, newest first; only where one version is asked for."""
    same_as: str = ""
    """An earlier version with the same content; only of a version that was just registered."""

    @property
    def title(self) -> str:
        """Name and version."""
        return f"{self.name}:{self.version}"


@dataclass(frozen=True)
class CheckedPart:
    """What verifying found about one part of a statement."""

    part: str
    """`signature`, `files`, `job`, `code`, `data`, `model`."""
    state: str
    """`verified`, `gone` (what a hash names isn't there any more) or `wrong`."""
    sentence: str


@dataclass(frozen=True)
class ModelCheck:
    """The result of verifying a version."""

    name: str
    version: str
    is_valid: bool
    """Whether nothing is wrong. What is gone isn't wrong."""
    key: str
    """The SHA-256 of the public key."""
    findings: tuple[CheckedPart, ...]


@dataclass(frozen=True)
class RegistryKey:
    """The public key by which statements are verified. pem: its text. sha256: its name."""

    pem: str
    sha256: str


@dataclass(frozen=True)
class ModelExport:
    """What belongs beside the files of an exported model, by name: its signature, the plan and the story of its job."""

    uri: str
    is_file: bool
    texts: dict[str, str]
