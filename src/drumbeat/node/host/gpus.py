"""The GPUs of this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping


def gpus(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The ids of the GPUs that this machine offers: those in CUDA_VISIBLE_DEVICES, else all that the driver shows.

    CUDA counts from 0: in a container with only /dev/nvidia3, that is device 0.
    """
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return tuple(part.strip() for part in visible.split(",") if part.strip() not in ("", "-1"))
    devices = [name for name in os.listdir("/dev") if re.fullmatch(r"nvidia\d+", name)]
    return tuple(str(number) for number in range(len(devices)))
