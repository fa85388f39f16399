"""What passes between a browser and a service: nothing of drumbeat's, nothing that touches the host's other ports."""

import pytest

from drumbeat.server.access.page_sessions import PageSessions
from drumbeat.server.access.request_guard import cookies, valid_session
from drumbeat.server.services.headers import Header, is_upgrade, to_browser, to_service, without_own_cookies

pytestmark = pytest.mark.feature("M7")

ORIGIN = b"http://127.0.0.1:20876"
OWN: list[Header] = [(b"Host", b"127.0.0.1:20876"), (b"Cookie", b"a=1; drumbeat-x=secret;Drumbeat-y=s; b=2")]


def passed(*more: Header, **options: object) -> dict[bytes, bytes]:
    return dict(to_service([*OWN, *more], ORIGIN, **{"has_own_token": False, **options}))


def test_service_gets_no_cookie_of_drumbeat():
    assert passed()[b"Cookie"] == b"a=1; b=2"
    assert without_own_cookies(b"drumbeat-x=1") == b""
    assert b"Cookie" not in dict(to_service([OWN[0], (b"Cookie", b"drumbeat-x=1")], ORIGIN, has_own_token=False))


def test_service_gets_an_authorization_only_if_it_is_not_drumbeats():
    bearer = (b"Authorization", b"Bearer t")
    assert passed(bearer)[b"Authorization"] == b"Bearer t"
    assert b"Authorization" not in passed(bearer, has_own_token=True)
    assert passed(bearer, has_own_token=True, token="j")[b"Authorization"] == b"token j"


def test_service_is_called_by_a_local_name_and_origin():
    seen = passed((b"Origin", ORIGIN), (b"Referer", ORIGIN + b"/lab?a"))
    assert (seen[b"Host"], seen[b"Origin"]) == (b"localhost", b"http://localhost")
    assert seen[b"Referer"] == b"http://localhost/lab?a"
    assert b"Referer" not in passed((b"Referer", ORIGIN + b"9/other"))


def test_only_an_upgrade_keeps_its_connection_headers():
    asked = [(b"Connection", b"keep-alive, Upgrade"), (b"Upgrade", b"websocket")]
    assert is_upgrade(asked)
    assert passed(*asked)[b"Upgrade"] == b"websocket"
    assert b"Connection" not in passed((b"Connection", b"keep-alive"))


@pytest.mark.parametrize(
    ("answered", "seen"),
    [
        ((b"Set-Cookie", b"drumbeat-x=1; Path=/"), None),
        ((b"Set-Cookie", b"=drumbeat-x=1; Path=/"), None),
        ((b"Set-Cookie", b"a=1; Domain=corp.example; Path=/"), b"a=1; Path=/"),
        ((b"Clear-Site-Data", b'"cookies"'), None),
        ((b"Strict-Transport-Security", b"max-age=9"), None),
        ((b"Location", b"http://localhost/lab"), b"/lab"),
        ((b"Location", b"http://localhost.evil/lab"), b"http://localhost.evil/lab"),
        ((b"Content-Type", b"text/html"), b"text/html"),
    ],
)
def test_answer_changes_nothing_of_the_whole_host(answered: Header, seen: bytes | None):
    assert dict(to_browser([answered])).get(answered[0]) == seen


def test_cookie_that_cannot_be_read_spoils_no_other():
    given = b'{"a": 1}; x[y]="z; drumbeat-a=1.2; theme=dark, mode'
    assert cookies([(b"cookie", given)], "drumbeat-a") == ["1.2"]


def test_session_that_another_program_plants_counts_as_none():
    sessions = PageSessions("token")
    own, planted = (sessions.open(sessions.new_link(digest)) for digest in ("", "eve"))
    assert valid_session([(b"cookie", f"{sessions.cookie}=bad; {sessions.cookie}={own}".encode())], sessions) == own
    both = f"{sessions.cookie}={planted}; {sessions.cookie}={own}".encode()
    assert valid_session([(b"cookie", both)], sessions) == ""
