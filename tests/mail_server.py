"""A mail server that keeps what it takes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import Message

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session


class Mailbox:
    """The handler of a mail server: it keeps the mail that it takes."""

    def __init__(self) -> None:
        self.port = 0
        self.is_taking_late = True
        self.goodbye = "221 Bye"
        self.mails: list[tuple[list[str], Message]] = []
        self.arrived = threading.Condition()

    async def handle_RCPT(  # noqa: N802 (aiosmtpd's)
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        if address.startswith("left@"):
            return "550 has left"
        if address.startswith("grey@") or (address.startswith("late@") and not self.is_taking_late):
            return "451 come back later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_QUIT(self, _server: SMTP, _session: Session, _envelope: Envelope) -> str:  # noqa: N802 (aiosmtpd's)
        return self.goodbye

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802 (aiosmtpd's)
        if any("nobody" in one for one in envelope.rcpt_tos):
            return "550 no such mailbox"
        with self.arrived:
            self.mails.append((envelope.rcpt_tos, message_from_bytes(envelope.original_content or b"")))
            self.arrived.notify_all()
        return "250 taken"

    def mail_about(self, job: str) -> tuple[list[str], Message]:
        with self.arrived:
            assert self.arrived.wait_for(lambda: self.about(job), timeout=60), f"no mail about {job} came"
            return self.about(job)[0]

    def about(self, job: str) -> list[tuple[list[str], Message]]:
        return [one for one in self.mails if f"job {job} " in str(one[1]["Subject"])]


class MailServer(Controller):
    """A mail server on a free port, which aiosmtpd's own controller can't have."""

    def _trigger_server(self) -> None:
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


@contextmanager
def open_mailbox() -> Iterator[Mailbox]:
    """A mail server that runs."""
    box = Mailbox()
    server = MailServer(box, hostname="127.0.0.1", port=0, ready_timeout=30)
    server.start()
    box.port = server.port
    yield box
    server.stop()
