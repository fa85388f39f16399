"""The error of a node whose machine is out of order. Every agent loads this module."""

from __future__ import annotations

from drumbeat.model.errors import RefusedError


class UnusableNodeError(RefusedError):
    """No job can run on this machine; another one may do."""
