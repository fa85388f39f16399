"""Where a server reports the ends of jobs: a webhook, or a mail server with its receivers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, SecretStr

from drumbeat.jobfile.data.credentials import Called, Credentials, Secret
from drumbeat.jobfile.reading.field_types import Name, Text, complaint
from drumbeat.jobfile.reading.loader import DocumentKind
from drumbeat.jobfile.reading.model import AnyCase, Contradiction, Model

ENDS = ("completed", "failed", "canceled")
End = Annotated[Literal["completed", "failed", "canceled"], AnyCase()]

_ADDRESS = re.compile(r"[^@\s,<>\"]+@[^@\s,<>\"]+", re.ASCII)


def is_address(text: str) -> bool:
    """Whether the text is one address of a mailbox, without a name or a list."""
    return _ADDRESS.fullmatch(text) is not None


def _address(value: object) -> object:
    if not isinstance(value, str) or not is_address(value.strip()):
        raise complaint("this isn't an address of a mailbox", "Write it like `ada@example.org`.")
    return value.strip()


Address = Annotated[str, BeforeValidator(_address)]


def _webhook(value: object) -> object:
    """An http or https address. It is a secret: who knows a Slack webhook can write to its channel."""
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    try:
        parts = urlsplit(text) if isinstance(text, str) else None
    except ValueError:
        parts = None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise complaint("expected an address that begins with `https://` or `http://`")
    return SecretStr(str(text).strip())


class WebhookCredentials(Credentials):
    """The address of a webhook, which is all that is needed to write to it."""

    type: Annotated[Literal["webhook"], AnyCase()] = Field(default="webhook", description="Always `webhook`.")
    url: Annotated[SecretStr, BeforeValidator(_webhook)] = Field(repr=False, description="The webhook's address.")

    @property
    def title(self) -> str:
        return "url"


class MailCredentials(Credentials):
    """A user of a mail server."""

    type: Annotated[Literal["username_password"], AnyCase()] = Field(
        default="username_password", description="Always `username_password`."
    )
    username: Called = Field(repr=False, description="User.")
    password: Secret = Field(repr=False, description="The user's password, or a token.")

    @property
    def title(self) -> str:
        return "password"


class NoticeTarget(Model):
    """What every target has."""

    noun: ClassVar[str] = "the notice target"

    name: Name = Field(description="Name by which jobs call it.")
    jobs: Annotated[Literal["named", "all"], AnyCase()] = Field(
        default="named", description="`named` reports jobs that name the target; `all` reports every job of the server."
    )
    on: list[End] = Field(
        default_factory=lambda: list[End](ENDS), min_length=1, description="Ends of jobs that are reported."
    )
    description: Text | None = Field(default=None, description="Description of its purpose.")


class WebhookTarget(NoticeTarget):
    """A webhook that takes Slack's JSON: Slack, Mattermost, Rocket.Chat, Discord (`…/slack`), and others."""

    type: Annotated[Literal["webhook"], AnyCase()] = Field(default="webhook", description="Always `webhook`.")
    credentials: WebhookCredentials = Field(repr=False, description="`url`: the webhook's address.")


class MailTarget(NoticeTarget):
    """A mail server, and who gets its mail."""

    type: Annotated[Literal["mail"], AnyCase()] = Field(default="mail", description="Always `mail`.")
    host: Called = Field(description="Host name of the mail server.")
    port: int = Field(default=587, ge=1, le=65535, description="Port of the mail server.")
    security: Annotated[Literal["starttls", "tls", "none"], AnyCase()] = Field(
        default="starttls", description="`starttls`, `tls` from the first byte, or `none`."
    )
    sender: Address = Field(description="Address in `From:`.")
    to: list[Address] = Field(
        default_factory=list, description="Receivers; jobs may name others (`notify: [ada@example.org]`)."
    )
    credentials: MailCredentials | None = Field(default=None, repr=False, description="`username` and `password`.")

    def contradictions(self) -> Iterator[Contradiction]:
        if self.jobs == "all" and not self.to:
            yield Contradiction(
                ("to",), "a target for all jobs needs receivers", "Write them: `to: [ada@example.org]`."
            )
        if self.security == "none" and self.credentials:
            what = "a password is not sent without TLS"
            yield Contradiction(("security",), what, "Use `starttls` or `tls`, or leave `credentials` out.")


AnyTarget = WebhookTarget | MailTarget


def _class(document: Mapping[str, Any], _places: object = None) -> type[Model]:
    return MailTarget if str(document.get("type", "")).strip().casefold() == "mail" else WebhookTarget


TARGET = DocumentKind("a notice target", _class, "`name:` and `type: webhook` or `type: mail`")
