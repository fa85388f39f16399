"""Registered components as the API shows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class ComponentView:
    """A version of a component."""

    name: str
    version: str
    type: str
    """`command` or `pipeline`."""
    created_at: datetime
    display_name: str = ""
    description: str = ""
    is_deterministic: bool = True
    inputs: dict[str, Any] = field(default_factory=dict[str, Any])
    outputs: dict[str, Any] = field(default_factory=dict[str, Any])
    code: dict[str, str] = field(default_factory=dict[str, str])
    """The snapshot with the code of each step that has one, by its path; of a command, under an empty path."""
    jobs: tuple[str, ...] = ()
    """The jobs that were submitted with it, newest first."""
    document: dict[str, Any] = field(default_factory=dict[str, Any])
    """The component as its file has it, with the components that it names."""
    same_as: str = ""
    """Another version with the same content; only of a version that was just created."""
    is_archived: bool = False
    """Whether lists leave it out."""

    @property
    def title(self) -> str:
        """The component's name and version as a file writes them."""
        return f"{self.name}:{self.version}"
