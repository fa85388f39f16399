"""The error of a node that lacks what another one may have. Every agent loads this module; `shares` is loaded where
there are any.
"""

from __future__ import annotations

from drumbeat.model.errors import RefusedError


class MissingShareError(RefusedError):
    """A share of the compute, or the checkpoints that the job continues from, are missing on this node."""
