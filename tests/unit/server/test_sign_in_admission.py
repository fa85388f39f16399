"""Whom of a provider's users the server admits: as Keycloak, Entra ID, Google, GitLab, Okta and Dex describe them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from drumbeat.model.errors import ForbiddenError
from drumbeat.model.principal import Role
from drumbeat.server.access.page_addresses import safe_return
from drumbeat.server.sign_in.admission import Admission, admission
from drumbeat.server.sign_in.flow import new_flow
from drumbeat.server.sign_in.settings import ProviderClient, ProviderSettings

pytestmark = pytest.mark.feature("X7")

BASE = ProviderSettings(
    "https://idp.example", ProviderClient("drumbeat"), {"admins": Role.OWNER, "ml": Role.CONTRIBUTOR}, ask="grace"
)
EVERYONE = {"*": Role.CONTRIBUTOR, "admins@example.org": Role.OWNER}
KEYCLOAK = replace(BASE, groups_claim="realm_access.roles")
GOOGLE = replace(BASE, roles=EVERYONE, name_claim="email", allowed_domains=("example.org",))
ENTRA = replace(BASE, roles={"0f3a-11": Role.READER, "Admin": Role.OWNER})
GITLAB = replace(BASE, name_claim="nickname", groups_claim="groups_direct", roles={"team/ml": Role.CONTRIBUTOR})
ADA = {"sub": "1", "preferred_username": "ada"}


@pytest.mark.parametrize(
    ("settings", "claims", "name", "role"),
    [
        (BASE, {**ADA, "groups": ["x", "ml"]}, "ada", "contributor"),
        (BASE, {**ADA, "groups": ["ml", "admins"]}, "ada", "owner"),
        (BASE, {**ADA, "groups": "ml"}, "ada", "contributor"),
        (BASE, {**ADA, "groups": [3, None, {"ml": 1}, "ml"]}, "ada", "contributor"),
        (KEYCLOAK, {**ADA, "realm_access": {"roles": ["ml"]}}, "ada", "contributor"),
        (replace(BASE, groups_claim="https://example.org/groups"), {**ADA, "https://example.org/groups": ["ml"]}, "ada",
         "contributor"),
        (GOOGLE, {"sub": "1", "email": "ada@example.org", "email_verified": True, "hd": "example.org"},
         "ada@example.org", "contributor"),
        (GOOGLE, {"sub": "1", "email": "ada@EXAMPLE.org", "email_verified": True}, "ada@EXAMPLE.org", "contributor"),
        (ENTRA, {"sub": "1", "preferred_username": "ada@example.org", "groups": ["0f3a-11"]}, "ada@example.org",
         "reader"),
        (GITLAB, {"sub": "1", "nickname": "ada", "groups_direct": ["team/ml"]}, "ada", "contributor"),
    ],
)  # fmt: skip
def test_user_has_the_highest_role_of_the_groups(
    settings: ProviderSettings, claims: dict[str, Any], name: str, role: str
) -> None:
    assert admission(claims, settings) == Admission(name, Role(role))


@pytest.mark.parametrize(
    ("settings", "claims", "said"),
    [
        (BASE, {**ADA, "groups": ["cooks"]}, "ada is in no group that may use this server. Ask grace."),
        (BASE, ADA, "ada is in no group that may use this server. Ask grace."),
        (BASE, {**ADA, "groups": ["ML", "admin", "ml "]}, "ada is in no group"),
        (KEYCLOAK, {**ADA, "realm_access": "ml"}, "ada is in no group"),
        (BASE, {"sub": "1", "groups": ["ml"]}, "idp.example says no preferred_username of this user"),
        (BASE, {**ADA, "preferred_username": "Ada Lovelace", "groups": ["ml"]}, "can't be the name of a user here"),
        (BASE, {**ADA, "preferred_username": "a\nb", "groups": ["ml"]}, "'a b' can't be the name"),
        (ENTRA, {**ADA, "_claim_names": {"groups": "src1"}}, "doesn't say the groups of ada, who is in too many"),
        (GOOGLE, {"sub": "1", "email": "ada@example.org"}, "hasn't verified the mail address ada@example.org"),
        (GOOGLE, {"sub": "1", "email": "ada@example.org", "email_verified": True, "hd": "evil.example"},
         "is of a domain that may not use this server: evil.example"),
        (GOOGLE, {"sub": "1", "email": "ada@example.org.evil", "email_verified": True}, "example.org.evil"),
        (replace(GOOGLE, name_claim="preferred_username"), {**ADA, "email": "ada@example.org"}, "no verified one"),
    ],
)  # fmt: skip
def test_refusal_says_why_and_whom_to_ask(settings: ProviderSettings, claims: dict[str, Any], said: str) -> None:
    with pytest.raises(ForbiddenError) as refused:
        admission(claims, settings)
    assert said in str(refused.value)


def test_return_address_is_one_of_the_page_or_its_first() -> None:
    for own in ("/ui/", "/ui", "/ui/jobs/a?rank=3#log", "/ui?x=//evil.example"):
        assert safe_return(own) == own
    for foreign in (
        "https://evil.example/ui/",
        "//evil.example/ui/",
        "/\\evil.example",
        "/uix",
        "/ui/../api",
        "/ui/\n",
        "",
    ):
        assert safe_return(foreign) == "/ui/"
    assert safe_return("/ui/" + "a" * 3000) == "/ui/"


def test_flows_share_nothing_with_one_another() -> None:
    first, second = new_flow("/ui/"), new_flow("/ui/")
    assert len({first.state, first.nonce, first.verifier, second.state, second.nonce, second.verifier}) == 6
