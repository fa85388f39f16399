"""What has a name: resources as they are kept, and which jobs use them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True)
class Resource:
    """A named thing as it is kept; one version of it, where its kind has versions. A version never changes."""

    kind: str
    """The name of its kind, such as `registry`."""
    name: str
    """Of kinds with a subject, such as aliases, the subject stands in front: `compute/gpu-cluster`."""
    version: str = ""
    """"" = its kind has no versions, or the store is to count one."""
    document: dict[str, Any] = field(default_factory=dict[str, Any])
    """What it is, as JSON-able values, without its secrets."""
    digest: str = ""
    """Of its content, of a version: the same content has the same."""
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    made_by: str = ""
    """The job whose output it is; "" = a person made it."""
    sealed: bytes = field(default=b"", repr=False)
    """Its secrets, encrypted; b"" = none."""


@dataclass(frozen=True)
class Use:
    """A job names a resource, or something else that it uses.

    kind: also `step`, the result of a step by its reuse key, and `place`, where an output goes. role: what for, as the
    job calls it (`inputs.data`, `environment`).
    """

    kind: str
    name: str
    version: str
    role: str
