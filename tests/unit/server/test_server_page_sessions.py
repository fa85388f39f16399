"""Sessions of the web page: links that work once, cookies that end, and tokens of actions."""

from drumbeat.server.access.page_sessions import LINK_LIFETIME_S, MAX_LINKS, SESSION_LIFETIME_S, PageSessions


class HandClock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def opened(sessions: PageSessions) -> str:
    session = sessions.open(sessions.new_link())
    assert session is not None
    return session


def test_link_opens_a_session_once() -> None:
    sessions = PageSessions("token")
    code = sessions.new_link()
    assert sessions.is_valid(sessions.open(code) or "")
    assert sessions.open(code) is None
    assert sessions.open("another") is None


def test_link_that_is_too_old_opens_nothing() -> None:
    clock = HandClock()
    sessions = PageSessions("token", clock)
    code = sessions.new_link()
    clock.now += LINK_LIFETIME_S
    assert sessions.open(code) is None


def test_oldest_unused_links_are_forgotten() -> None:
    sessions = PageSessions("token")
    codes = [sessions.new_link() for _ in range(MAX_LINKS + 1)]
    assert sessions.open(codes[0]) is None
    assert sessions.open(codes[1]) is not None


def test_session_ends_and_survives_a_restart_of_the_server_until_then() -> None:
    clock = HandClock()
    session = opened(PageSessions("token", clock))
    restarted = PageSessions("token", clock)
    clock.now += SESSION_LIFETIME_S - 1
    assert restarted.is_valid(session)
    clock.now += 1
    assert not restarted.is_valid(session)


def test_forged_sessions_are_refused() -> None:
    session = opened(PageSessions("token"))
    body, _, signature = session.rpartition(".")
    later = f"9{body}.{signature}"
    for forged in ("", ".", "a.b", body, later, f"{session}0", f"{body}.é", session.replace(".", "")):
        assert not PageSessions("token").is_valid(forged), forged
    assert not PageSessions("another token").is_valid(session)
    assert PageSessions("token").cookie != PageSessions("another token").cookie


def test_action_token_belongs_to_one_session() -> None:
    sessions = PageSessions("token")
    one, other = opened(sessions), opened(sessions)
    assert sessions.may_act(one, sessions.action_token(one))
    assert not sessions.may_act(other, sessions.action_token(one))
    assert not sessions.may_act(one, "é")
