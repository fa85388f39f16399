"""The kinds of named things that exist."""

from __future__ import annotations

from typing import Any

from drumbeat.resources.batch import BATCH_DEPLOYMENT, BATCH_ENDPOINT
from drumbeat.resources.component import COMPONENT
from drumbeat.resources.data import DATA
from drumbeat.resources.datastore import DATASTORE
from drumbeat.resources.environment import ENVIRONMENT
from drumbeat.resources.kind import Kind
from drumbeat.resources.model import MODEL
from drumbeat.resources.notice_target import NOTICE_TARGET
from drumbeat.resources.registry import REGISTRY

KINDS: tuple[Kind[Any], ...] = (
    DATA,
    DATASTORE,
    ENVIRONMENT,
    REGISTRY,
    COMPONENT,
    NOTICE_TARGET,
    MODEL,
    BATCH_ENDPOINT,
    BATCH_DEPLOYMENT,
)
"""Each has its routes below `/api/v1`."""
