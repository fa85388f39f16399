"""Environments and registries of images as the API shows them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from drumbeat.model.plan import PythonEnvironment


@dataclass(frozen=True)
class EnvironmentView:
    """An environment.

    python: what nodes install for it, null where they run containers of its `image` instead, or where it can't be
    made; `problem` says why. version: "" of a curated environment, which has no time either. means: the names that
    stand for it. notes: what nodes do otherwise than written. jobs: that named it, newest first. document: as it is
    kept: the environment as written, and its files. same_as: another version with the same content, "" = none; only of
    a version that was just made. is_archived: lists leave it out.
    """

    name: str
    version: str
    python: PythonEnvironment | None
    image: str
    created_at: datetime | None
    curated: bool
    about: str
    means: tuple[str, ...]
    notes: tuple[str, ...]
    jobs: tuple[str, ...]
    document: dict[str, Any]
    problem: str
    same_as: str = ""
    is_archived: bool = False

    @property
    def title(self) -> str:
        """The environment's name and version as a job file writes them."""
        return f"{self.name}:{self.version}" if self.version else self.name


@dataclass(frozen=True)
class RegistryView:
    """A registry of images, without its credentials.

    target: what the names of its images begin with. credentials: their kind, in words. insecure: it is used without
    TLS, or its certificate isn't checked. push_builds: images that nodes build are pushed there.
    """

    name: str
    target: str
    credentials: str
    insecure: bool
    description: str
    push_builds: bool = False
