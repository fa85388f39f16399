"""Records of the table of resources, and of the jobs that use them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True)
class Resource:
    """A stored named thing, or one version of it if its kind has versions. A version never changes."""

    kind: str
    """The name of its kind, such as `registry`."""
    name: str
    """The name. Kinds with a subject, such as aliases, prefix it: `compute/gpu-cluster`."""
    version: str = ""
    """"" = its kind has no versions, or the store assigns the next number."""
    document: dict[str, Any] = field(default_factory=dict[str, Any])
    """Its content as JSON values, without secrets."""
    digest: str = ""
    """The digest of a version's content."""
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    made_by: str = ""
    """The job whose output it is; "" = a user created it."""
    sealed: bytes = field(default=b"", repr=False)
    """Its secrets, encrypted; b"" = none."""
    is_archived: bool = False
    """Whether lists leave the version out."""


@dataclass(frozen=True)
class Use:
    """The use of a resource, or of something else, by a job.

    kind: also `step` (the result of a step, by its reuse key) and `place` (the place of an output). role: its key in
    the job file, such as `inputs.data` or `environment`.
    """

    kind: str
    name: str
    version: str
    role: str
