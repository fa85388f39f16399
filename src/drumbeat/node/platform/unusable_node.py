"""The error of a node whose machine is defective. Every agent loads this module."""

from __future__ import annotations

from drumbeat.model.errors import RefusedError


class UnusableNodeError(RefusedError):
    """Raised when no job can run on this machine; another machine may work."""
