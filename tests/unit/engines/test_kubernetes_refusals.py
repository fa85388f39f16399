"""Refusals of an API server in drumbeat's words, and the sizes of machines."""

from __future__ import annotations

import pytest

from drumbeat.engines.kubernetes.connection import counts_as_success, refusal
from drumbeat.engines.kubernetes.machines import amount
from drumbeat.model.errors import EngineError, UnreachableError

from .kubernetes_cluster import CHANGED_QUOTA

pytestmark = pytest.mark.feature("C4")

QUOTA = 'pods "cifar-1-0a-1" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1'
SECURITY = (
    'pods "x" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container '
    '"agent" must set securityContext.allowPrivilegeEscalation=false)'
)
ROLE = 'pods is forbidden: User "ada" cannot create resource "pods" in API group "" in the namespace "training"'


@pytest.mark.parametrize(
    ("status", "message", "says"),
    [
        (401, "Unauthorized", "Kubernetes doesn't accept the user's credentials: Unauthorized. Log in to the cluster"),
        (403, QUOTA, f"the namespace's quota is used up: {QUOTA}"),
        (409, CHANGED_QUOTA, f"Kubernetes can't serve POST /pods right now: {CHANGED_QUOTA}"),
        (429, "Too many requests", "the Kubernetes API server can't answer right now (429)"),
        (500, "etcdserver: request timed out", "the Kubernetes API server can't answer right now (500): etcdserver"),
        (503, "apiserver is shutting down", "the Kubernetes API server can't answer right now (503)"),
    ],
)
def test_transient_refusal_is_unreachable(status: int, message: str, says: str):
    error = refusal(status, message, "POST /pods")
    assert isinstance(error, UnreachableError)
    assert says in str(error)


@pytest.mark.parametrize(
    ("status", "message", "says"),
    [
        (403, SECURITY, "Set `user` in the compute's file; with it, pods satisfy the `restricted` standard."),
        (403, ROLE, f"Kubernetes refused POST /pods: {ROLE}. docs/kubernetes.md lists the permissions"),
        (404, 'namespaces "x" not found', 'Kubernetes refused POST /pods (404): namespaces "x" not found'),
        (422, "Pod is invalid: spec.containers: Required value", "(422): Pod is invalid"),
    ],
)
def test_final_refusal_has_a_fix(status: int, message: str, says: str):
    error = refusal(status, message, "POST /pods")
    assert isinstance(error, EngineError)
    assert says in str(error)


@pytest.mark.parametrize(
    ("status", "reason", "is_good"),
    [
        (409, "AlreadyExists", True),
        (409, "Conflict", False),
        (409, "", False),
        (404, "NotFound", True),
        (422, "", False),
    ],
)
def test_conflict_is_as_good_as_success_only_where_the_object_exists(status: int, reason: str, is_good: bool):
    assert counts_as_success(status, reason, frozenset({404, 409})) is is_good


@pytest.mark.parametrize(
    ("text", "number"),
    [("4", 4), ("3920m", 3.92), ("16Gi", 2**34), ("500M", 5e8), ("1e3", 1000), ("x", 0), (None, 0), (2, 2)],
)
def test_quantity_is_read_as_kubernetes_writes_it(text: object, number: float):
    assert amount(text) == pytest.approx(number)
