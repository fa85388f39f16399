"""The names and labels of drumbeat's objects in Kubernetes: pure.

A gang of a server has the same names each time, so a repeated POST creates nothing twice. An object name is a DNS label
of at most 63 characters; job names may be longer, and may contain capitals and `_`.
"""

from __future__ import annotations

import hashlib
import re

from drumbeat.model.unique_names import parse_gang_name

OWNER, GANG, NODE = "drumbeat/owner", "drumbeat/gang", "drumbeat/node"
"""Labels: the pod's owner, its gang (an object name), and its node of the gang."""
JOB = "drumbeat/job"
"""Annotation: the gang's name in drumbeat (`model/unique_names.py`)."""
_MAX_JOB = 36


def owner(compute: str, mark: str) -> str:
    """The label value that identifies this server's compute in the namespace."""
    return f"{mark}-{_digest(compute)}"


def gang_name(owner_label: str, gang: str) -> str:
    """The object name of a gang: readable, and unique by a digest of the whole name."""
    job, attempt = parse_gang_name(gang)
    readable = re.sub(r"[^a-z0-9]+", "-", job.lower()).strip("-")[:_MAX_JOB].rstrip("-") or "job"
    if not readable[0].isalpha():  # Before 1.32, names of some objects had to begin with a letter.
        readable = f"j{readable}"
    return f"{readable}-{attempt}-{_digest(f'{owner_label}/{gang}')}"


def pod_name(gang_object: str, node: int) -> str:
    """The name of the pod of one node."""
    return f"{gang_object}-{node}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
