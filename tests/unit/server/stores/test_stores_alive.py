from concurrent.futures import ThreadPoolExecutor

import pytest

from drumbeat.server.home_folder.live_objects import OnePerName


def test_an_object_is_kept_until_others_were_used_since():
    alive = OnePerName(lambda name: [name], idle=2)

    def used(name):
        with alive.use(name) as value:
            return value

    first = used("a")
    assert used("b") is used("b")
    assert used("a") is first
    used("c")
    assert used("a") is first
    used("d")
    assert used("a") is first
    used("e")
    used("f")
    assert used("a") is not first


def test_object_in_use_is_never_closed():
    alive = OnePerName(lambda name: [name], idle=1)
    with alive.use("a") as value:
        for name in "bcd":
            with alive.use(name):
                pass
        value.append("still here")
    with alive.use("a") as again:
        assert again == ["a", "still here"]


def test_error_replaces_the_object():
    alive = OnePerName(lambda name: [name], idle=4)

    def fail():
        with alive.use("a") as value:
            value.append("half done")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    with alive.use("a") as value:
        assert value == ["a"]


def test_object_is_used_by_one_thread_at_a_time():
    alive = OnePerName(lambda _: [0], idle=1)

    def count(n):
        with alive.use(f"{n % 3}") as value:
            seen = value[0]
            value[0] = seen + 1
            assert value[0] == seen + 1

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(count, range(500)))
