"""Whom of the provider's users the server admits, and in which role. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from drumbeat.model.errors import ForbiddenError
from drumbeat.model.principal import MAX_USER_NAME, USER_NAME, Role
from drumbeat.server.sign_in.provider_answer import claim_value, printable
from drumbeat.server.sign_in.settings import EVERYONE, ProviderSettings

MAX_GROUPS = 10_000


@dataclass(frozen=True)
class Admission:
    """A user whom the server admits."""

    name: str
    role: Role


def admission(claims: Mapping[str, Any], settings: ProviderSettings) -> Admission:
    """Returns the user of these claims. Raises ForbiddenError, whose sentence says whom to ask."""
    name = user_name(claims, settings)
    return Admission(name, role_of_claims(claims, settings, name))


def user_name(claims: Mapping[str, Any], settings: ProviderSettings) -> str:
    """Returns the name of the user on this server. Raises ForbiddenError for one that can't be a name."""
    given = claim_value(claims, settings.name_claim)
    if not isinstance(given, str) or not given:
        what = f"{settings.title} says no {settings.name_claim} of this user"
        fix = f"Ask {settings.ask}: name_claim, or scopes, in the server's file of the provider must be another one."
        raise ForbiddenError(what, fix=fix)
    if settings.name_claim == "email" and claims.get("email_verified") is not True:
        what = f"{settings.title} hasn't verified the mail address {printable(given)}"
        raise ForbiddenError(what, fix=f"Verify it there, or ask {settings.ask}.")
    if not USER_NAME.fullmatch(given):
        what = f"{printable(given)[: MAX_USER_NAME + 1]!r} can't be the name of a user here"
        fix = f"Ask {settings.ask}: name_claim must be a claim of letters, digits and `_ . @ + -`."
        raise ForbiddenError(what, fix=fix)
    return given


def role_of_claims(claims: Mapping[str, Any], settings: ProviderSettings, name: str) -> Role:
    """Returns the highest role of a user's groups. Raises ForbiddenError for a user in none that may use the server."""
    _require_domain(claims, settings, name)
    groups = {EVERYONE, *_groups(claims, settings, name)}
    roles = {settings.roles[one] for one in groups if one in settings.roles}
    if not roles:
        what = f"{name} is in no group that may use this server"
        raise ForbiddenError(what, fix=f"Ask {settings.ask}.")
    return next(role for role in Role if role in roles)


def _groups(claims: Mapping[str, Any], settings: ProviderSettings, name: str) -> list[str]:
    value = claim_value(claims, settings.groups_claim)
    if value is None and _is_overage(claims, settings):
        what = f"{settings.title} doesn't say the groups of {name}, who is in too many"
        fix = f'Ask {settings.ask}: assign app roles, with groups_claim = "roles", or send only the app\'s groups.'
        raise ForbiddenError(what, fix=fix)
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [one for one in cast("list[Any]", value)[:MAX_GROUPS] if isinstance(one, str)]
    return []


def _is_overage(claims: Mapping[str, Any], settings: ProviderSettings) -> bool:
    """Whether Entra ID left the groups out, because there are more than fit into a token."""
    elsewhere = claims.get("_claim_names")
    return (isinstance(elsewhere, Mapping) and settings.groups_claim in elsewhere) or claims.get("hasgroups") is True


def _require_domain(claims: Mapping[str, Any], settings: ProviderSettings, name: str) -> None:
    """Raises ForbiddenError for a user of a domain that isn't allowed: Google's `hd`, else a verified mail address."""
    if not settings.allowed_domains:
        return
    email = claims.get("email")
    domain = claims.get("hd")
    if domain is None and isinstance(email, str) and claims.get("email_verified") is True:
        domain = email.rpartition("@")[2]
    if not isinstance(domain, str) or domain.lower() not in settings.allowed_domains:
        shown = printable(domain) if isinstance(domain, str) and domain else "no verified one"
        what = f"{name} is of a domain that may not use this server: {shown}"
        raise ForbiddenError(what, fix=f"Ask {settings.ask}.")
