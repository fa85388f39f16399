"""What has a name: resources as they are kept, and which jobs use them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol


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


class Catalog(Protocol):
    """The resources of all kinds. What a call has returned from is durable."""

    def resources(self, kind: str, name: str | None = None) -> list[Resource]:
        """Those of a kind, all versions, of one name or of all: the newest first."""
        ...

    def resource(self, kind: str, name: str, version: str = "") -> Resource:
        """One of them, "" = the newest version. Raises NotFoundError, which names what there is."""
        ...

    def add_version(self, resource: Resource) -> tuple[Resource, bool]:
        """Keeps a version; (it, True).

        Without a version: the whole number after the highest one of that name, unless the newest version has this
        digest: then that one is the answer, and False. A version that exists with the same digest is the answer, too;
        with another it raises ConflictError.
        """
        ...

    def put_resource(self, resource: Resource) -> bool:
        """Keeps a resource without versions, in place of the one of its name; returns whether there was none."""
        ...

    def remove_resource(self, kind: str, name: str, version: str = "") -> None:
        """Removes one. The number of a version isn't given again while a newer one exists. Raises NotFoundError."""
        ...

    def users(self, kind: str, name: str, version: str) -> list[tuple[str, str]]:
        """(job, role) of the jobs that named the version, newest first."""
        ...

    def uses(self, job: str) -> list[Use]:
        """What a job named when it was submitted."""
        ...
