"""Paths that name the same files on a compute's nodes and on the server's machine."""

from __future__ import annotations

import os
from pathlib import Path

from drumbeat.server.computes.compute_state import ComputeState


def is_visible(place: str, compute: ComputeState | None) -> bool:
    """Whether a path on this machine is the same files as on the nodes of a compute. compute: None = it was deleted.

    A shared folder that only the nodes mount is another folder on this machine.
    """
    if compute is None or compute.spec is None:
        return compute is not None and compute.document is None  # This machine itself.
    share = compute.spec.share_at(place)
    is_mounted_here = share is None or (not share.mount and (share.type == "path" or os.path.ismount(share.path)))
    return is_mounted_here and compute.spec.sees(Path(place))
