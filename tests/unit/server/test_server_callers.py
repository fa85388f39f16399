"""Whose a token is: the store is asked once for a while, and again after a token was removed."""

import asyncio
import hashlib

import pytest

from drumbeat.model.principal import Principal, Role
from drumbeat.server.access.callers import KEPT_S, MAX_KEPT, Callers

pytestmark = pytest.mark.feature("X3")
ADA = Principal("ada", Role.READER)


class Store:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.tokens = {digest("t"): ADA}
        self.asked: list[str] = []

    def find(self, key: str) -> Principal | None:
        self.asked.append(key)
        return self.tokens.get(key)


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def test_token_of_the_home_belongs_to_the_servers_user_and_asks_no_store() -> None:
    store = Store()
    callers = Callers("home", "root", store.find)
    assert asyncio.run(callers.for_token("home")) == Principal("root", Role.OWNER)
    assert (callers.token_digest("home"), store.asked) == ("", [])


def test_answer_is_used_for_a_while_and_a_wrong_token_is_asked_again() -> None:
    store, now = Store(), [0.0]
    callers = Callers("home", "root", store.find, lambda: now[0])

    async def ask() -> list[Principal | None]:
        return [await callers.for_token(token) for token in ("t", "t", "wrong", "wrong")]

    assert asyncio.run(ask()) == [ADA, ADA, None, None]
    assert store.asked == [digest("t"), digest("wrong"), digest("wrong")]
    now[0] = KEPT_S
    assert asyncio.run(callers.for_token("t")) == ADA
    assert len(store.asked) == 4


def test_removed_token_is_invalid_at_once() -> None:
    store = Store()
    callers = Callers("home", "root", store.find)
    assert asyncio.run(callers.for_token("t")) == ADA
    store.tokens.clear()
    callers.forget()
    assert asyncio.run(callers.for_token("t")) is None


def test_answers_that_are_kept_have_a_bound() -> None:
    callers = Callers("home", "root", lambda _digest: ADA)

    async def ask() -> None:
        for number in range(MAX_KEPT + 5):
            await callers.for_digest(str(number))

    asyncio.run(ask())
    assert len(callers._kept) == MAX_KEPT
