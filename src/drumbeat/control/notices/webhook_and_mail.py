"""How a notice reaches its target: JSON to a webhook, or a message to a mail server. Imported at the first notice.

The tries and the pauses between them are those of `control/notices/send_notice.py`.
"""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from typing import TYPE_CHECKING

import httpx

from drumbeat.protocol.errors import RefusedError, UnreachableError
from drumbeat.protocol.plurals import list_first

if TYPE_CHECKING:
    from drumbeat.dialect.notices.targets import AnyTarget, MailTarget, WebhookTarget

TIMEOUT_S = 20.0
_PASSING = (408, 425, 429)
"""Refusals of a webhook that pass; those from 500 on do, too."""
_NEW_URL = "Create the target again with the right url: drumbeat notice create."


@dataclass(frozen=True)
class NoticeText:
    """What is said, and what it is about."""

    title: str
    lines: Sequence[str]
    key: str = ""
    """Identifies the notice: a message that is sent twice has one Message-ID."""


def deliver(target: AnyTarget, notice: NoticeText, receivers: Sequence[str] = ()) -> None:
    """Delivers a notice. receivers: of a mail, instead of the target's own.

    Raises UnreachableError for what may pass, RefusedError for what won't.
    """
    if target.type == "mail":
        _mail(target, notice, receivers or target.to)
    else:
        _post(target, notice)


def _post(target: WebhookTarget, notice: NoticeText) -> None:
    text = "\n".join([f"*{_escaped(notice.title)}*", *map(_escaped, notice.lines)])
    where = f"notice target {target.name}"
    try:
        answer = httpx.post(
            target.credentials.url.get_secret_value(), json={"text": text}, timeout=TIMEOUT_S, follow_redirects=False
        )
    except (httpx.InvalidURL, UnicodeError):
        what = "its address isn't one of a webhook"
        raise RefusedError(what, where=where, fix=_NEW_URL) from None
    except httpx.HTTPError as error:
        what = f"its webhook can't be reached: {type(error).__name__}"
        raise UnreachableError(what, where=where) from None  # The error's text has the address, which is a secret.
    if answer.is_success:
        return
    what = f"its webhook answered {answer.status_code}: {' '.join(answer.text.split())[:200]}"
    if answer.status_code in _PASSING or answer.status_code >= 500:
        raise UnreachableError(what, where=where)
    raise RefusedError(what, where=where, fix=_NEW_URL)


def _escaped(text: str) -> str:
    """Text as Slack's markup shows it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _mail(target: MailTarget, notice: NoticeText, receivers: Sequence[str]) -> None:
    where = f"notice target {target.name}"
    if not receivers:
        raise RefusedError("it has no receivers", where=where, fix="Write them under `to`.")
    try:
        with _connected(target) as line:
            if target.credentials:
                line.login(target.credentials.username, target.credentials.password.get_secret_value())
            refused = line.send_message(_message(target, notice, receivers))
    except smtplib.SMTPRecipientsRefused as error:
        # The lowest code: while one receiver may take the mail later, it is tried again.
        code, answer = min(error.recipients.values(), key=lambda one: one[0])
        raise _refusal(where, code, answer) from None
    except smtplib.SMTPResponseException as error:
        raise _refusal(where, error.smtp_code, error.smtp_error) from None
    except smtplib.SMTPNotSupportedError as error:
        raise RefusedError(f"its mail server can't do what the target asks of it: {error}", where=where) from None
    except UnicodeError:  # Without its text, which has a character of the password.
        what = "its host, or its user or password, has characters that can't be sent to a mail server"
        raise RefusedError(what, where=where, fix="Mail servers are logged into with ASCII only.") from None
    except (OSError, smtplib.SMTPException) as error:
        raise UnreachableError(f"its mail server can't be reached: {error}", where=where) from None
    if refused:  # It isn't sent again: the others have it.
        code, answer = next(iter(refused.values()))
        whom = list_first(sorted(refused), 3)
        raise RefusedError(f"{_answer_of(code, answer)} for {whom}; the other receivers have the mail", where=where)


def _refusal(where: str, code: int, answer: bytes | str) -> RefusedError | UnreachableError:
    what = _answer_of(code, answer)
    return RefusedError(what, where=where) if code >= 500 else UnreachableError(what, where=where)


def _answer_of(code: int, answer: bytes | str) -> str:
    words = answer.decode(errors="replace") if isinstance(answer, bytes) else answer
    return f"its mail server answered {code}: {' '.join(words.split())[:200]}"


def _connected(target: MailTarget) -> smtplib.SMTP:
    context = ssl.create_default_context()
    if target.security == "tls":
        return smtplib.SMTP_SSL(target.host, target.port, timeout=TIMEOUT_S, context=context)
    line = smtplib.SMTP(target.host, target.port, timeout=TIMEOUT_S)
    if target.security == "starttls":
        try:
            line.starttls(context=context)
        except BaseException:
            line.close()
            raise
    return line


def _message(target: MailTarget, notice: NoticeText, receivers: Sequence[str]) -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = notice.title
    message["From"] = target.sender
    message["To"] = ", ".join(receivers)
    message["Date"] = formatdate()
    message["Message-ID"] = f"<{notice.key}@drumbeat>" if notice.key else make_msgid(domain="drumbeat")
    message["Auto-Submitted"] = "auto-generated"
    message.set_content("\n".join(notice.lines) + "\n")
    return message
