"""Credentials of datastores: models that hold secrets, and messages that don't show them."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, cast, get_args
from urllib.parse import parse_qs

from pydantic import BeforeValidator, Discriminator, Field, GetCoreSchemaHandler, SecretStr, Tag
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_before_validator_function

from drumbeat.jobfile.reading.error_messages import IN_QUOTES, words
from drumbeat.jobfile.reading.field_types import complaint, filled
from drumbeat.jobfile.reading.model import Contradiction, Model


def _secret(value: object) -> object:
    """Accepts a text that isn't empty; messages never show it."""
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    if not isinstance(text, str):
        raise complaint("expected a text", IN_QUOTES)
    return SecretStr(filled(text).strip())


def _account_file(value: object) -> object:
    """The account's file as Google gives it: as a text, or as the mapping that it is."""
    if isinstance(value, Mapping):
        value = json.dumps(dict(cast("Mapping[str, object]", value)))
    text = _secret(value)
    try:
        account = json.loads(cast("SecretStr", text).get_secret_value())
    except ValueError:
        raise complaint("this isn't the JSON of a service account") from None
    if not isinstance(account, dict) or not {"client_email", "private_key"} <= set(cast("dict[str, Any]", account)):
        raise complaint("this isn't a service account's key: it has no `client_email` and `private_key`")
    return text


def _plain_name(value: object) -> object:
    if not isinstance(value, str):
        raise complaint("expected a text", IN_QUOTES)
    return filled(value).strip()


Secret = Annotated[SecretStr, BeforeValidator(_secret)]
Called = Annotated[str, BeforeValidator(_plain_name)]


def read_sas(token: str) -> dict[str, str]:
    """What a shared access signature of Azure says of itself, by key: `sp` what it allows, `se` until when."""
    return {key: values[0] for key, values in parse_qs(token.lstrip("?")).items()}


class OrWord:
    """On `SomeCredentials | Literal[…]`: a mapping is read as the credentials, a word as a way without secrets.

    A wrong value isn't shown: it may be a secret.
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        cls, word = get_args(source)
        ways = get_args(word)

        def read(value: object) -> object:
            if isinstance(value, str) and value.strip().casefold() in ways:
                return value.strip().casefold()
            if not isinstance(value, Mapping | cls):
                raise complaint(f"expected {words(ways, 'or')}, or a mapping", f"Its keys: {words(cls.model_fields)}.")
            return cast("object", value)

        tagged = Annotated[Annotated[cls, Tag("[mapping]")] | Annotated[word, Tag("[value]")], Discriminator(_tag)]
        return no_info_before_validator_function(read, handler.generate_schema(tagged))


def _tag(value: object) -> str:
    return "[value]" if isinstance(value, str) else "[mapping]"


class Credentials(Model):
    """The credentials of one datastore or registry."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The kind of these credentials, as messages call it."""

    def opened(self) -> dict[str, str]:
        """Returns all values, secrets in the clear."""
        given = {name: getattr(self, name) for name in type(self).model_fields}
        return {
            name: value.get_secret_value() if isinstance(value, SecretStr) else str(value)
            for name, value in given.items()
            if value is not None
        }

    def _exactly_one(self, *ways: tuple[str, ...]) -> Iterator[Contradiction]:
        """Yields a contradiction unless exactly one of the ways is given, completely."""
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        begun = [way for way in ways if set(way) & set(given)]
        if not begun:
            yield Contradiction((), f"this needs {' or '.join(words(way) for way in ways)}")
        elif len(begun) > 1:
            yield Contradiction((begun[1][0],), "more than one way to get in", f"Keep {words(begun[0])} or this.")
        elif missing := [name for name in begun[0] if name not in given]:
            yield Contradiction((), f"this needs {words(missing)} too")


class FileShareCredentials(Credentials):
    """A key of the storage account, or a signature that it gave."""

    account_key: Secret | None = Field(default=None, repr=False, description="Key of the storage account.")
    sas_token: Secret | None = Field(default=None, repr=False, description="Shared access signature.")

    @property
    def title(self) -> str:
        return "account key" if self.account_key else "SAS token"

    def contradictions(self) -> Iterator[Contradiction]:
        yield from self._exactly_one(("account_key",), ("sas_token",))


class AzureCredentials(FileShareCredentials):
    """A key, a signature, or a service principal."""

    tenant_id: Called | None = Field(default=None, repr=False, description="Tenant of the service principal.")
    client_id: Called | None = Field(default=None, repr=False, description="Its id.")
    client_secret: Secret | None = Field(default=None, repr=False, description="Its secret.")
    authority_url: Called | None = Field(default=None, repr=False, description="Who answers for it; Azure when absent.")
    resource_url: Called | None = Field(default=None, repr=False, description="Taken as Azure has it; not used.")

    @property
    def title(self) -> str:
        return "service principal" if self.client_secret else super().title

    def contradictions(self) -> Iterator[Contradiction]:
        yield from self._exactly_one(("account_key",), ("sas_token",), ("tenant_id", "client_id", "client_secret"))


class HttpCredentials(Credentials):
    """A user with a password, a bearer token, or the signed part of an address."""

    user: Called | None = Field(default=None, repr=False, description="User.")
    password: Secret | None = Field(default=None, repr=False, description="The user's password.")
    token: Secret | None = Field(default=None, repr=False, description="Bearer token.")
    query: Secret | None = Field(default=None, repr=False, description="What stands behind the `?` of every address.")

    @property
    def title(self) -> str:
        return "bearer token" if self.token else "signed query" if self.query else "password"

    def contradictions(self) -> Iterator[Contradiction]:
        yield from self._exactly_one(("user", "password"), ("token",), ("query",))


class S3Credentials(Credentials):
    """An access key."""

    access_key_id: Called = Field(repr=False, description="Id of the key.")
    secret_access_key: Secret = Field(repr=False, description="The key.")
    session_token: Secret | None = Field(default=None, repr=False, description="For keys that expire.")

    @property
    def title(self) -> str:
        return "access key"


class SftpCredentials(Credentials):
    """A password, or a private key."""

    password: Secret | None = Field(default=None, repr=False, description="The user's password.")
    private_key: Secret | None = Field(default=None, repr=False, description="A private key, as its file has it.")
    passphrase: Secret | None = Field(default=None, repr=False, description="What the private key is locked with.")

    @property
    def title(self) -> str:
        return "private key" if self.private_key else "password"

    def contradictions(self) -> Iterator[Contradiction]:
        yield from self._exactly_one(("password",), ("private_key",))
        if self.passphrase is not None and self.private_key is None:
            yield Contradiction(("passphrase",), "a passphrase without a `private_key`")


class GcsCredentials(Credentials):
    """A key of a service account."""

    service_account: Annotated[SecretStr, BeforeValidator(_account_file)] = Field(
        repr=False, description="The service account's key, as Google's JSON file has it."
    )

    @property
    def title(self) -> str:
        return "service account"


AzureAccess = Annotated[AzureCredentials | Literal["environment", "none"], OrWord()]
FileShareAccess = Annotated[FileShareCredentials | Literal["none"], OrWord()]
HttpAccess = Annotated[HttpCredentials | Literal["none"], OrWord()]
S3Access = Annotated[S3Credentials | Literal["environment", "none"], OrWord()]
SftpAccess = Annotated[SftpCredentials | Literal["environment"], OrWord()]
GcsAccess = Annotated[GcsCredentials | Literal["environment", "none"], OrWord()]


def split(model: Model) -> tuple[dict[str, Any], dict[str, str]]:
    """A model as plain values without its credentials, and these; `{}` where none were given.

    `credentials: environment` and `none` are no secrets and stay in the document.
    """
    document: dict[str, Any] = model.model_dump(mode="json", exclude_none=True)
    held = getattr(model, "credentials", None)
    if not isinstance(held, Credentials):
        return document, {}
    document.pop("credentials")
    return document, held.opened()
