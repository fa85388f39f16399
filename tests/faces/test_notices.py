"""Notices of the ends of jobs reach webhooks and mail servers, and hold up no job."""

from __future__ import annotations

import http.server
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session
from typer.testing import CliRunner

from drumbeat.cli.main import app
from drumbeat.client import Client
from drumbeat.core.lifecycle.events import SendNotice
from drumbeat.jobfile.notices.targets import AnyTarget
from drumbeat.model.errors import AwayError, DrumbeatError, NotFoundError, RefusedError, SpecError, UnreachableError
from drumbeat.resources.notice_target import NOTICE_TARGET
from drumbeat.server.notices import send_notice, webhook_and_mail
from drumbeat.server.notices.notice_targets import NoticeTargets
from drumbeat.server.notices.webhook_and_mail import NoticeText, deliver
from tests.mail_server import Mailbox, MailServer, open_mailbox
from tests.real.identities import a_certificate

from .api_house import TOKEN, House, house_in

pytestmark = [pytest.mark.feature("M11"), pytest.mark.xdist_group("test_notices")]


class Webhook(http.server.ThreadingHTTPServer):
    """A webhook: it keeps what is posted, and answers with the statuses in `answers`, then with 200."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Poster)
        self.answers: list[int] = []
        self.texts: list[str] = []
        self.arrived = threading.Condition()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/secret"

    def text_about(self, job: str) -> str:
        with self.arrived:
            assert self.arrived.wait_for(lambda: self._about(job), timeout=60), f"no notice of {job} came"
            return self._about(job)[0]

    def _about(self, job: str) -> list[str]:
        return [text for text in self.texts if f"job {job} " in text]


class Poster(http.server.BaseHTTPRequestHandler):
    server: Webhook

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.arrived:
            status = self.server.answers.pop(0) if self.server.answers else 200
            if status == 200:
                self.server.texts.append(body["text"])
            self.server.arrived.notify_all()
        self.send_response(status)
        self.send_header("Content-Length", "0")
        if status == 302:
            self.send_header("Location", "http://169.254.169.254/")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def login(_server: SMTP, _session: Session, _envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
    return AuthResult(success=mechanism in ("LOGIN", "PLAIN") and data.password == b"open sesame", handled=False)


@pytest.fixture(scope="module")
def webhook() -> Iterator[Webhook]:
    with Webhook() as there:
        threading.Thread(target=there.serve_forever, daemon=True).start()
        yield there
        there.shutdown()


@pytest.fixture(scope="module")
def mailbox() -> Iterator[Mailbox]:
    with open_mailbox() as box:
        yield box


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, webhook: Webhook, mailbox: Mailbox) -> Iterator[House]:
    with house_in(tmp_path_factory.mktemp("house")) as there:
        with Client(url=there.url, token=TOKEN) as client:
            client.create_notice_target({"name": "chat", "type": "webhook", "credentials": {"url": webhook.url}})
            mail = {
                "type": "mail",
                "host": "127.0.0.1",
                "port": mailbox.port,
                "security": "none",
                "sender": "drum@example.org",
            }
            client.create_notice_target({"name": "mail", "to": ["team@example.org"], "security": "none", **mail})
        yield there


@pytest.fixture
def client(house: House) -> Iterator[Client]:
    with Client(url=house.url, token=TOKEN) as there:
        yield there


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def ended(house: House, name: str, code: int = 0, **keys: object) -> str:
    document: dict[str, Any] = {"drumbeat": {"environment": "current", "max_retries": 0, **keys}}
    house.submit(name, **document)
    house.finish(name, code)
    return name


def test_webhook_and_mail_report_how_a_job_ended(house: House, webhook: Webhook, mailbox: Mailbox) -> None:
    ended(house, "a", code=3, notify=["chat", "mail", "ada@example.org"])
    text = webhook.text_about("a")
    assert text.startswith("*drumbeat: job a failed*\n")
    assert "exit code 3" in text
    assert "See it: drumbeat show a" in text
    receivers, mail = mailbox.mail_about("a")
    wait_for(lambda: len(mailbox.about("a")) == 2)
    assert sorted(to for to, _ in mailbox.about("a")) == [["ada@example.org"], ["team@example.org"]]
    assert mail["From"] == "drum@example.org"
    assert receivers == [mail["To"]]
    assert "exit code 3" in str(mail.get_payload())


def test_only_chosen_ends_of_jobs_that_request_it_are_reported(house: House, webhook: Webhook) -> None:
    ended(house, "silent")
    ended(house, "well", notify=["chat"], notify_on=["failed"])
    ended(house, "badly", code=1, notify=["chat"], notify_on=["failed"])
    webhook.text_about("badly")
    assert not [text for text in webhook.texts if "job silent " in text or "job well " in text]
    assert not [one for one in house.control.store.outbox() if one.job in ("silent", "well")]


def test_target_for_all_jobs_reports_jobs_but_no_children(house: House, client: Client, webhook: Webhook) -> None:
    every = {
        "name": "every",
        "type": "webhook",
        "jobs": "all",
        "on": ["completed"],
        "credentials": {"url": webhook.url},
    }
    client.create_notice_target({**every, "credentials": {"url": webhook.url}})
    try:
        house.submit_part("child", "silent")
        with house.engine.changed:
            assert house.engine.changed.wait_for(lambda: "child.1" in house.engine.gangs, timeout=60)
        house.finish("child")
        ended(house, "reported")
        webhook.text_about("reported")
        assert not [text for text in webhook.texts if "job child " in text]
    finally:
        client.delete_notice_target("every")


def test_notice_is_retried_until_delivered_once(house: House, webhook: Webhook) -> None:
    with webhook.arrived:
        webhook.answers = [503]
    ended(house, "again", notify=["chat"])
    assert house.control.store.load("again").job.state == "completed"
    webhook.text_about("again")
    assert len([text for text in webhook.texts if "job again " in text]) == 1


def test_refused_notice_is_dropped_with_the_reason(
    house: House, client: Client, webhook: Webhook, mailbox: Mailbox
) -> None:
    with webhook.arrived:
        webhook.answers = [302]
    ended(house, "moved", notify=["chat"])
    wait_for(lambda: not [one for one in house.control.store.outbox() if one.job == "moved"])
    assert "answered 302" in client.notice_target("chat").problem
    keys = {"host": "127.0.0.1", "port": mailbox.port, "security": "none", "sender": "drum@example.org"}
    client.create_notice_target({"name": "lost", "type": "mail", "to": ["nobody@example.org"], **keys})
    with pytest.raises(RefusedError, match="550"):
        client.test_notice_target("lost")
    client.delete_notice_target("lost")
    receivers = ["left@example.org", "some@example.org"]
    client.create_notice_target({"name": "partly", "type": "mail", "to": receivers, **keys})
    with pytest.raises(RefusedError, match=r"550: has left for left@example\.org; the other receivers have the mail"):
        client.test_notice_target("partly")
    assert mailbox.mails[-1][0] == ["some@example.org"]
    client.delete_notice_target("partly")


def mail_target(mailbox: Mailbox, **more: object) -> AnyTarget:
    keys = {"host": "127.0.0.1", "port": mailbox.port, "security": "none", "sender": "a@b.c", "to": ["d@e.f"]}
    return NOTICE_TARGET.read({"name": "m", "type": "mail", **keys, **more})


def test_mail_deferred_by_one_receiver_is_retried(mailbox: Mailbox) -> None:
    with pytest.raises(UnreachableError, match="451: come back later"):
        deliver(mail_target(mailbox, to=["left@e.f", "grey@e.f"]), NoticeText("hello", ["world"]))


def test_refusal_of_all_receivers_does_not_claim_a_delivery(mailbox: Mailbox) -> None:
    with pytest.raises(RefusedError) as refused:
        deliver(mail_target(mailbox, to=["left@e.f", "left@g.h"]), NoticeText("hello", ["world"]))
    assert refused.value.what == "its mail server answered 550: has left for left@e.f, left@g.h"


def test_mail_that_was_accepted_is_delivered_whatever_the_server_answers_to_quit(mailbox: Mailbox) -> None:
    mailbox.goodbye = "421 4.3.2 service shutting down"
    try:
        deliver(mail_target(mailbox), NoticeText("hello quitter", ["world"]))
    finally:
        mailbox.goodbye = "221 Bye"
    assert len([one for one in mailbox.mails if one[1]["Subject"] == "hello quitter"]) == 1


def test_only_deferred_receivers_are_sent_the_mail_again(house: House, client: Client, mailbox: Mailbox) -> None:
    mailbox.is_taking_late = False
    keys = {"host": "127.0.0.1", "port": mailbox.port, "security": "none", "sender": "drum@example.org"}
    receivers = ["some@example.org", "late@example.org", "left@example.org"]
    client.create_notice_target({"name": "late", "type": "mail", "to": receivers, **keys})
    ended(house, "putoff", notify=["late"])
    problem = (
        "451: come back later for late@example.org; its mail server answered 550: has left for left@example.org; the"
    )
    wait_for(lambda: problem in client.notice_target("late").problem)
    mailbox.is_taking_late = True
    wait_for(lambda: len(mailbox.about("putoff")) == 2)
    assert [one[0] for one in mailbox.about("putoff")] == [["some@example.org"], ["late@example.org"]]
    assert {one[1]["To"] for one in mailbox.about("putoff")} == {", ".join(receivers)}
    wait_for(lambda: not [one for one in house.control.store.outbox() if one.job == "putoff"])
    refusal = "its mail server answered 550: has left for left@example.org; the other receivers have the mail"
    assert client.notice_target("late").problem == refusal
    client.delete_notice_target("late")


def test_mail_ends_when_the_receiver_that_was_put_off_leaves_the_target(
    house: House, client: Client, mailbox: Mailbox
) -> None:
    mailbox.is_taking_late = False
    keys = {"name": "shrinks", "type": "mail", "host": "127.0.0.1", "port": mailbox.port, "security": "none"}
    target = {**keys, "sender": "drum@example.org"}
    client.create_notice_target({**target, "to": ["some@example.org", "late@example.org"]})
    ended(house, "shrunk", notify=["shrinks"])
    wait_for(lambda: "451: come back later" in client.notice_target("shrinks").problem)
    client.create_notice_target({**target, "to": ["some@example.org"]})
    wait_for(lambda: not [one for one in house.control.store.outbox() if one.job == "shrunk"])
    assert (len(mailbox.about("shrunk")), client.notice_target("shrinks").problem) == (1, "")
    client.delete_notice_target("shrinks")


def test_notice_is_given_up_after_its_tries_whatever_goes_wrong(
    house: House, client: Client, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def defect(*_: object) -> None:
        raise ValueError(f"a defect at {webhook.url}")

    monkeypatch.setattr(send_notice, "MAX_TRIES", 2)
    monkeypatch.setattr(webhook_and_mail, "deliver", defect)
    client.create_notice_target({"name": "odd", "type": "webhook", "credentials": {"url": webhook.url}})
    ended(house, "unlucky", notify=["odd"])
    wait_for(lambda: not [one for one in house.control.store.outbox() if one.job == "unlucky"])
    assert client.notice_target("odd").problem == "an unexpected failure on the server: ValueError"
    client.delete_notice_target("odd")


def test_notice_is_sent_after_its_target_could_not_be_read(
    house: House, client: Client, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    named, asked = NoticeTargets.opened, []

    def away_when_sent(self: NoticeTargets, name: str) -> AnyTarget:
        asked.append(name)
        if len(asked) == 2:  # The submission asks first.
            raise AwayError("every connection to the database is in use")
        return named(self, name)

    client.create_notice_target({"name": "slow", "type": "webhook", "credentials": {"url": webhook.url}})
    monkeypatch.setattr(NoticeTargets, "opened", away_when_sent)
    ended(house, "patient", notify=["slow"])
    wait_for(lambda: not [one for one in house.control.store.outbox() if one.job == "patient"])
    assert asked == ["slow"] * 3
    assert client.notice_target("slow").problem == ""
    client.delete_notice_target("slow")


def test_mail_server_without_starttls_is_no_server_that_is_away(mailbox: Mailbox) -> None:
    with pytest.raises(RefusedError, match="STARTTLS extension not supported"):
        deliver(mail_target(mailbox, security="starttls"), NoticeText("hello", ["world"]))


def test_webhook_with_an_invalid_address_is_refused_when_called() -> None:
    keys = {"name": "w", "type": "webhook"}
    for url in ("http://127.0.0.1:x/secret", "http://127.0.0.1:1/\x01secret", f"http://{'a' * 64}.example/secret"):
        with pytest.raises(DrumbeatError) as refused:
            deliver(NOTICE_TARGET.read({**keys, "credentials": {"url": url}}), NoticeText("hello", ["world"]))
        assert "secret" not in str(refused.value)


def test_notice_that_waits_holds_up_neither_the_job_nor_its_deletion(house: House, client: Client) -> None:
    away = {"name": "away", "type": "webhook", "credentials": {"url": "http://127.0.0.1:9/x"}}
    client.create_notice_target(away)
    ended(house, "free", notify=["away"])
    wait_for(lambda: "can't be reached" in client.notice_target("away").problem)
    assert [one for one in house.control.store.outbox() if one.job == "free"]
    client.delete("free")
    assert not [one for one in house.control.store.outbox() if one.job == "free"]
    with pytest.raises(UnreachableError, match="can't be reached"):
        client.test_notice_target("away")
    client.delete_notice_target("away")


def test_waiting_notice_uses_the_current_target(house: House, client: Client, webhook: Webhook) -> None:
    away = {"name": "later", "type": "webhook", "credentials": {"url": "http://127.0.0.1:9/x"}}
    client.create_notice_target(away)
    ended(house, "survivor", notify=["later"])
    wait_for(lambda: [one.effect for one in house.control.store.outbox()] == [SendNotice(1, "later")])
    client.create_notice_target({**away, "credentials": {"url": webhook.url}})
    webhook.text_about("survivor")


def test_job_that_names_an_unknown_target_is_refused(house: House, client: Client) -> None:
    for names, said in ((["chatt"], "chat"), (["team"], "no notice target team")):
        document = {"command": "true", "drumbeat": {"notify": names}}
        with pytest.raises(NotFoundError, match=said):
            client.submit(document, name="refused")


def test_secrets_are_sealed_and_never_shown(house: House, client: Client, webhook: Webhook) -> None:
    assert "secret" not in house.control.store.setting("notices")
    assert "secret" not in house.http.get("/api/v1/notices").text
    with pytest.raises(SpecError) as refused:
        client.create_notice_target({"name": "x", "type": "webhook", "credentials": {"url": "ftp://hidden/secret"}})
    assert "hidden" not in str(refused.value)
    for keys in ({"jobs": "all"}, {"credentials": {"username": "a", "password": "b"}}):
        with pytest.raises(DrumbeatError):
            client.create_notice_target(
                {"name": "x", "type": "mail", "host": "h", "security": "none", "sender": "a@b.c", **keys}
            )


def test_mail_server_is_logged_into_by_tls(tmp_path: Path) -> None:
    made = a_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.file, made.key)
    box = Mailbox()
    controller = MailServer(
        box, hostname="127.0.0.1", port=0, authenticator=login, auth_required=True, tls_context=context
    )
    controller.start()
    try:
        port = controller.port
        keys = {"name": "m", "type": "mail", "host": "127.0.0.1", "port": port, "sender": "a@b.c", "to": ["d@e.f"]}
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SSL_CERT_FILE", str(made.file))
            good = NOTICE_TARGET.read({**keys, "credentials": {"username": "ada", "password": "open sesame"}})
            deliver(good, NoticeText("hello", ["world"]))
            bad = NOTICE_TARGET.read({**keys, "credentials": {"username": "ada", "password": "guess"}})
            with pytest.raises(RefusedError, match="535"):
                deliver(bad, NoticeText("hello", ["world"]))
            umlaut = NOTICE_TARGET.read({**keys, "credentials": {"username": "ada", "password": "öffne dich"}})
            with pytest.raises(RefusedError, match="can't be sent to a mail server") as refused:
                deliver(umlaut, NoticeText("hello", ["world"]))
            assert "öffne" not in str(refused.value)
    finally:
        controller.stop()
    assert [mail["Subject"] for _, mail in box.mails] == ["hello"]


def test_command_line_makes_tries_lists_and_deletes_targets(
    house: House, webhook: Webhook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRUMBEAT_SERVER", house.url)
    monkeypatch.setenv("DRUMBEAT_TOKEN", TOKEN)
    monkeypatch.setenv("HOOK", webhook.url)
    file = tmp_path / "hook.yml"
    file.write_text("name: typed\ntype: webhook\non: [failed]\ncredentials:\n  url: env:HOOK\n")

    def typed(*words: str) -> str:
        done = CliRunner().invoke(app, ["notice", *words])
        assert done.exit_code == 0, done.output
        return done.output

    assert "notice target typed created: webhook at 127.0.0.1, for jobs that name it" in typed(
        "create", "-f", str(file)
    )
    assert "was delivered to typed" in typed("test", "typed")
    assert any("a test notice" in text for text in webhook.texts)
    assert "typed" in typed("list")
    assert "failed" in typed("show", "typed")
    assert json.loads(typed("show", "typed", "--json"))["place"] == "127.0.0.1"
    typed("delete", "typed")
    assert "typed" not in typed("list")
