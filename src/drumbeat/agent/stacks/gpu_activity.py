"""Whether the GPU of a process computes, or only waits there for other ranks or for a kernel that never ends.

A kernel that waits keeps its GPU as busy as one that computes, but looks at a word of memory again and again, which is
in a cache: the GPU's memory is at rest. Seen on an H200: 0 % in kernels without an end and in NCCL's collectives, 3 to
22 % in matrix products.
"""

from __future__ import annotations

import contextlib

from drumbeat.agent.ground.nvml import Nvml, NvmlError, nvml


def memory_percent(library: Nvml | None = None) -> dict[int, float]:
    """Returns for what part of the last moment the memory of a process's GPU was read or written, by pid, in percent.

    A process without a GPU isn't in it, nor is one that the driver doesn't name, as in some containers. Of several GPUs
    the busiest counts.
    """
    library = library or nvml()
    busy: dict[int, float] = {}
    if library is None:
        return busy
    for device in library.devices():
        with contextlib.suppress(NvmlError):  # A GPU that is divided (MIG) doesn't say it.
            percent = float(library.utilization(device)[1])
            for pid in library.processes(device):
                busy[pid] = max(busy.get(pid, 0.0), percent)
    return busy
