"""Delivers a notice as JSON to a webhook, or as a message to a mail server. Imported at the first notice.

`server/notices/send_notice.py` repeats failed attempts.
"""

from __future__ import annotations

import contextlib
import smtplib
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from typing import TYPE_CHECKING

import httpx

from drumbeat.model.errors import RefusedError, UnreachableError
from drumbeat.model.plurals import list_first

if TYPE_CHECKING:
    from drumbeat.jobfile.notices.targets import AnyTarget, MailTarget, WebhookTarget

TIMEOUT_S = 20.0
_PASSING = (408, 425, 429)
"""Transient refusals of a webhook, beside all from 500 on."""
_FINAL_FROM = 500
"""From this code on, a mail server's refusal is final (RFC 5321, 4.2.1)."""
_NEW_URL = "Create the target again with the right url: drumbeat notice create."


@dataclass(frozen=True)
class NoticeText:
    """The text of a notice, and the job."""

    title: str
    lines: Sequence[str]
    key: str = ""
    """Identifies the notice, so that a message that is sent twice has the same Message-ID."""


_Answer = tuple[int, bytes]
"""Code and text of a mail server's response."""


@dataclass(frozen=True)
class MailProgress:
    """The receivers to whom a mail is not sent again."""

    taken: frozenset[str] = frozenset()
    refused: Mapping[str, _Answer] = field(default_factory=dict[str, _Answer])
    """Receivers that the mail server refused permanently."""


class PutOffError(UnreachableError):
    """Some receivers of a mail may accept it later. progress: the other receivers, of all tries so far."""

    def __init__(self, what: str, *, where: str, progress: MailProgress) -> None:
        super().__init__(what, where=where)
        self.progress = progress


def deliver(
    target: AnyTarget, notice: NoticeText, receivers: Sequence[str] = (), progress: MailProgress | None = None
) -> None:
    """Delivers a notice. receivers: of a mail, instead of the target's own. progress: the result of earlier tries.

    Raises UnreachableError or PutOffError for a transient failure, RefusedError for a permanent one.
    """
    if target.type == "mail":
        _mail(target, notice, receivers or target.to, progress or MailProgress())
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
        what = "its URL isn't that of a webhook"
        raise RefusedError(what, where=where, fix=_NEW_URL) from None
    except httpx.HTTPError as error:
        what = f"its webhook can't be reached: {type(error).__name__}"
        raise UnreachableError(what, where=where) from None  # The error's text contains the URL, which is a secret.
    if answer.is_success:
        return
    what = f"its webhook answered {answer.status_code}: {' '.join(answer.text.split())[:200]}"
    if answer.status_code in _PASSING or answer.status_code >= 500:
        raise UnreachableError(what, where=where)
    raise RefusedError(what, where=where, fix=_NEW_URL)


def _escaped(text: str) -> str:
    """Escapes text for Slack's markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _mail(target: MailTarget, notice: NoticeText, receivers: Sequence[str], before: MailProgress) -> None:
    where = f"notice target {target.name}"
    if not receivers:
        raise RefusedError("it has no receivers", where=where, fix="List them under `to`.")
    due = [one for one in receivers if one not in before.taken and one not in before.refused]
    # No receiver is left if the remaining one has been removed from the target.
    answers = {**before.refused, **(_send(target, notice, receivers, due) if due else {})}
    refused = {one: answer for one, answer in answers.items() if one in receivers}
    if refused:
        _tell_refused(where, refused, before.taken | {*receivers} - refused.keys())


def _send(
    target: MailTarget, notice: NoticeText, receivers: Sequence[str], due: Sequence[str]
) -> Mapping[str, _Answer]:
    """Sends a mail to the remaining receivers. Returns those that the server refused, with its responses."""
    where = f"notice target {target.name}"
    try:
        line = _connected(target)
        try:
            if target.credentials:
                line.login(target.credentials.username, target.credentials.password.get_secret_value())
            return line.send_message(_message(target, notice, receivers), to_addrs=due)
        finally:
            _leave(line)
    except smtplib.SMTPRecipientsRefused as error:
        return error.recipients
    except smtplib.SMTPResponseException as error:
        raise _refusal(where, error.smtp_code, error.smtp_error) from None
    except smtplib.SMTPNotSupportedError as error:
        raise RefusedError(f"its mail server lacks a feature that the target needs: {error}", where=where) from None
    except UnicodeError:  # Without its text, which contains a character of the password.
        what = "its host, user or password has characters that can't be sent to a mail server"
        raise RefusedError(what, where=where, fix="Use only ASCII characters for the login.") from None
    except (OSError, smtplib.SMTPException) as error:
        raise UnreachableError(f"its mail server can't be reached: {error}", where=where) from None


def _leave(line: smtplib.SMTP) -> None:
    """Ends the session. The outcome is known before, so the response to QUIT doesn't matter."""
    with contextlib.suppress(OSError, smtplib.SMTPException):
        line.quit()
    line.close()


def _tell_refused(where: str, refused: Mapping[str, _Answer], taken: frozenset[str]) -> None:
    """Raises PutOffError if a receiver may accept the mail later, else RefusedError."""
    put_off = {one: answer for one, answer in refused.items() if answer[0] < _FINAL_FROM}
    final = {one: answer for one, answer in refused.items() if one not in put_off}
    words = [f"{_format_answer(*next(iter(some.values())))} for {list_first(sorted(some), 3)}"
             for some in (put_off, final) if some]  # fmt: skip
    what = "; ".join([*words, *(["the other receivers have the mail"] if taken else [])])
    if put_off:
        raise PutOffError(what, where=where, progress=MailProgress(taken, final))
    raise RefusedError(what, where=where)


def _refusal(where: str, code: int, answer: bytes | str) -> RefusedError | UnreachableError:
    what = _format_answer(code, answer)
    return RefusedError(what, where=where) if code >= _FINAL_FROM else UnreachableError(what, where=where)


def _format_answer(code: int, answer: bytes | str) -> str:
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
