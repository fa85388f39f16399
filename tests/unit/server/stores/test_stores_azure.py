"""Azure's containers, as far as they can be tried without Azure: what is signed, and what isn't."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.storage.blob import UserDelegationKey

from drumbeat.jobfile.data.datastores import AzureBlobDatastore
from drumbeat.model.errors import ForbiddenError, UnreachableError
from drumbeat.server.data.stores.azure import AzureBackend
from drumbeat.server.data.stores.backend_contract import StoreTimeouts, Wanted

pytestmark = pytest.mark.feature("D1")

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
FILE = Wanted("train/a.csv", 3, "0x1")


class Account:
    """As much of Azure's client as gives keys. status: of its refusals, 0 = it gives one."""

    def __init__(self, status: int) -> None:
        self.status, self.asked = status, 0

    def get_user_delegation_key(self, start: datetime, expiry: datetime) -> UserDelegationKey:
        self.asked += 1
        if self.status:
            error = HttpResponseError("no")
            error.status_code, error.error_code = self.status, "AuthorizationPermissionMismatch"
            raise error
        key = UserDelegationKey()
        key.signed_oid = key.signed_tid = key.signed_service = key.signed_version = "x"
        key.signed_start, key.signed_expiry, key.value = start.isoformat(), expiry.isoformat(), "c2VjcmV0"
        return key


class Room:
    """A container that is read by a service principal."""

    def __init__(self, status: int) -> None:
        principal = {"tenant_id": f"{1:032}", "client_id": f"{2:032}", "client_secret": "s"}
        spec = {"name": "blobs", "account_name": "acme", "container_name": "train", "credentials": principal}
        self.now, self.account = NOON, Account(status)
        self.backend = AzureBackend(
            AzureBlobDatastore.made(spec), "datastore `blobs`", StoreTimeouts(), lambda: self.now
        )
        self.backend._service: Any = SimpleNamespace(get_user_delegation_key=self.account.get_user_delegation_key)


def test_a_principal_with_a_role_on_the_account_signs_links():
    link = Room(0).backend.link(FILE, 3600)
    assert link is not None
    assert "sig=" in link.url


def test_principal_without_a_role_on_the_account_has_no_links_until_a_later_retry():
    room = Room(403)
    assert [room.backend.link(FILE, 3600) for _ in range(3)] == [None] * 3
    assert room.account.asked == 1
    room.now, room.account.status = NOON + timedelta(minutes=11), 0
    assert room.backend.link(FILE, 3600) is not None


def test_link_for_writing_without_a_role_on_the_account_is_refused():
    with pytest.raises(ForbiddenError) as refused:
        Room(403).backend.write_link("train/a.csv", 3600)
    what = "the datastore can't create a link for writing: its identity may not get a delegation key"
    assert refused.value.what == what
    assert refused.value.fix == (
        "Give it the role Storage Blob Delegator on the storage account; the container isn't enough."
    )


@pytest.mark.parametrize("cause", [ServiceRequestError("no route"), ServiceResponseError("reset"), OSError("no")])
def test_login_address_that_does_not_answer_is_no_refusal_of_the_principal(cause: Exception):
    def unanswered(*_: object) -> None:
        raise ClientAuthenticationError("Authentication failed") from cause

    room = Room(0)
    room.backend._service = SimpleNamespace(get_user_delegation_key=unanswered)
    with pytest.raises(UnreachableError) as raised:
        room.backend.link(FILE, 3600)
    assert "no answer from https://login.microsoftonline.com, where the identity logs in" in raised.value.what


def test_an_account_that_is_busy_is_no_refusal_of_links():
    with pytest.raises(UnreachableError):
        Room(503).backend.link(FILE, 3600)
