"""The end of a job's logs over HTTP, and what is older read up to it."""

import itertools
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from .api_house import House, house_in

pytestmark = pytest.mark.feature("M1")
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house_in(tmp_path_factory.mktemp("house")) as there:
        yield there


def printed(house: House, *pieces: str) -> str:
    """A job whose rank has printed these pieces."""
    job = house.submit(f"job-{next(NUMBERS)}")
    offset = 0
    for piece in pieces:
        house.agent(job).log(piece.encode(), offset)
        offset += len(piece.encode())
    return job


def page(house: House, job: str, **words: int) -> dict[str, Any]:
    answer = house.http.get(f"/api/v1/jobs/{job}/logs", params=words)
    assert answer.status_code == 200, answer.text
    return answer.json()


def lines(start: int, end: int) -> str:
    return "".join(f"lïne {n:04}\n" for n in range(start, end))


def test_tail_begins_with_a_whole_line_of_the_piece_that_it_cuts(house: House):
    job = printed(house, lines(0, 500), lines(500, 600), lines(600, 1000))
    tail = page(house, job, tail=4950)
    text = "".join(piece["text"] for piece in tail["pieces"])
    assert text == lines(551, 1000)
    assert (tail["first"], tail["end"], tail["after"]) == (2, 3, 3)
    assert tail["pieces"][0]["offset"] == len(lines(0, 551).encode())
    older = page(house, job, after=0)["pieces"]
    rest = "".join(piece["text"] for piece in older if piece["position"] <= tail["first"])
    assert rest == lines(0, 600)


@pytest.mark.parametrize("pieces", [(), (lines(0, 3),), tuple(lines(n, n + 1) for n in range(200))])
def test_tail_of_a_short_log_is_all_of_it(house: House, pieces: tuple[str, ...]):
    tail = page(house, printed(house, *pieces), tail=65536)
    assert "".join(piece["text"] for piece in tail["pieces"]) == "".join(pieces)
    assert (tail["first"], tail["end"]) == (0, len(pieces))


def test_tail_of_many_small_pieces_has_about_as_much_as_was_asked_for(house: House):
    tail = page(house, printed(house, *(lines(n, n + 1) for n in range(200))), tail=1000)
    text = "".join(piece["text"] for piece in tail["pieces"])
    assert text == lines(109, 200)
    assert tail["first"] == 109


def test_tail_without_a_line_break_is_not_cut(house: House):
    tail = page(house, printed(house, "x" * 5000), tail=100)
    assert (len(tail["pieces"][0]["text"]), tail["first"]) == (5000, 0)


def test_all_logs_are_one_text_of_whole_lines_with_their_rank_and_time(house: House):
    job = printed(house, "one\ntw", "ö\nrest")
    answer = house.http.get(f"/api/v1/jobs/{job}/log-text")
    assert answer.text == "0:0 │ one\n0:0 │ twö\n0:0 │ rest\n"
    assert answer.headers["content-disposition"] == f'attachment; filename="{job}.log"'
    assert answer.headers["content-type"].startswith("text/plain")
    timed = house.http.get(f"/api/v1/jobs/{job}/log-text", params={"times": "true"}).text.splitlines()
    assert [line.partition("Z ")[2] for line in timed] == ["0:0 │ one", "0:0 │ twö", "0:0 │ rest"]
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ", line) for line in timed)
    assert house.http.get("/api/v1/jobs/unknown/log-text").status_code == 404


def test_pieces_of_logs_have_the_time_at_which_they_came(house: House):
    before = time.time()
    pieces = page(house, printed(house, "one\n"))["pieces"]
    assert before - 1 <= pieces[0]["at"] <= time.time() + 1
