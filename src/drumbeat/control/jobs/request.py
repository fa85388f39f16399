"""A request for a job: what a client sends to submit or to preview it."""

from __future__ import annotations

from dataclasses import dataclass, field

from drumbeat.dialect.environments.texts import Texts


@dataclass(frozen=True)
class Request:
    """What a client sends to submit or to preview a job."""

    document: dict[str, object]
    """The job as JSON."""
    key: str = ""
    """Makes submission idempotent: the same key again returns the same job."""
    source: str = "job"
    """The file that the document came from, for messages."""
    experiment: str = "default"
    """The experiment where the document names none."""
    code: str | None = None
    """Digest of the code's snapshot."""
    inputs: dict[str, str] = field(default_factory=dict[str, str])
    """For each input with a local path, `file:///…` or `snapshot:<sha256>`."""
    environment: Texts = field(default_factory=Texts)
    """The files that the environment names."""
    notes: tuple[str, ...] = ()
    """What only the client sees, for people."""
