"""The error of a node that lacks a share. Every agent loads this module; `shares` is loaded where there are any."""

from __future__ import annotations

from drumbeat.model.errors import RefusedError


class MissingShareError(RefusedError):
    """A share of the compute isn't on this node, so that the job can't run on it."""
