"""Which paths of a compute's nodes are the same files on the server's machine."""

from __future__ import annotations

import os
from pathlib import Path

from drumbeat.server.computes.compute_state import ComputeState


def is_visible(place: str, compute: ComputeState | None) -> bool:
    """Whether what this machine has at a path is what the nodes of a compute have there. None = it is gone.

    A share is another folder on the nodes where they alone mount it.
    """
    if compute is None or compute.spec is None:
        return compute is not None and compute.document is None  # This machine itself.
    share = compute.spec.share_of(place)
    is_mounted_here = share is None or (not share.mount and (share.type == "path" or os.path.ismount(share.path)))
    return is_mounted_here and compute.spec.sees(Path(place))
