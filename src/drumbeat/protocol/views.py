"""What the server tells of things that have names and versions, as its own rooms and the client both see them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from drumbeat.protocol.plan import PythonEnvironment


@dataclass(frozen=True)
class DataUse:
    """A job that named a version of data. role: what for, as the job calls it."""

    job: str
    role: str


@dataclass(frozen=True)
class DataView:
    """A version of data. files, size: of what it is made of. made_by: the job whose output it was; "" = none.

    used_by: newest first. same_as: another version of the very same content, "" = none; told of what was just made.
    """

    name: str
    version: str
    type: str
    uri: str
    digest: str
    created_at: datetime
    made_by: str = ""
    description: str = ""
    tags: dict[str, str] = field(default_factory=dict[str, str])
    files: int = 0
    size: int = 0
    used_by: tuple[DataUse, ...] = ()
    same_as: str = ""


@dataclass(frozen=True)
class EnvironmentView:
    """An environment. python: what nodes make for it, None where they run containers of its `image` instead, or where
    it can't be made; `problem` says why.

    version: "" of a curated one, which has no time either; means: the names that mean it. notes: what nodes do
    otherwise than written. jobs: that named it, newest first. document: as it is kept: the environment as written,
    and its files. same_as: another version of the very same content, "" = none; told of what was just made.
    """

    name: str
    version: str
    python: PythonEnvironment | None = None
    image: str = ""
    created_at: datetime | None = None
    curated: bool = False
    about: str = ""
    means: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    document: dict[str, Any] = field(default_factory=dict[str, Any])
    problem: str = ""
    same_as: str = ""

    @property
    def title(self) -> str:
        """As a job's file names it."""
        return f"{self.name}:{self.version}" if self.version else self.name


@dataclass(frozen=True)
class RegistryView:
    """A registry of images, without its credentials. target: what the names of its images begin with.

    credentials: their kind, in words. insecure: it is spoken to without TLS, or its certificate isn't checked.
    """

    name: str
    target: str
    credentials: str = "none"
    insecure: bool = False
    description: str = ""
