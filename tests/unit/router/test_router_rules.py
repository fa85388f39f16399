"""The router's rules, played with connections that only keep what was sent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drumbeat.model import scoring_tokens
from drumbeat.model.routing_table import (
    DeploymentRoute,
    EndpointRoute,
    RouterListener,
    RoutingTable,
    digest,
    table_of,
    table_to_json,
)
from drumbeat.router.admission import is_admitted
from drumbeat.router.exchange import Exchange, RequestPhase
from drumbeat.router.numbers import as_json, as_prometheus
from drumbeat.router.pool import PermitPool
from drumbeat.router.replica_connection import REDIAL, ReplicaConnection
from drumbeat.router.traffic import TrafficSplit

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi"
DRAIN = b"HTTP/1.1 503 Service Unavailable\r\nDrumbeat-Drain: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.sent = b""
        self.is_closed = False
        self.is_paused = False

    def write(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


class Client:
    """What a client has seen."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = b""
        self.is_ended = self.is_cut = False

    def begin(self, status: int, headers: list[tuple[bytes, bytes]], length: int | None) -> None:
        self.status, self.headers, self.length = status, dict(headers), length

    def piece(self, data: bytes) -> None:
        self.body += data

    def end(self) -> None:
        self.is_ended = True

    def refuse(self, status: int, message: str) -> None:
        self.status, self.body, self.is_ended = status, message.encode(), True

    def cut(self) -> None:
        self.is_cut = True


class Street:
    """A pool with a clock of its own."""

    def __init__(self, **route: object) -> None:
        self.time = 0.0
        self.pool = PermitPool("ships", "blue", replace(DeploymentRoute(), **route), lambda: self.time)  # type: ignore[arg-type]

    def replica(self, name: str = "r") -> tuple[ReplicaConnection, Wire]:
        wire = Wire()
        connection = ReplicaConnection(self.pool, name, wire)  # type: ignore[arg-type]
        self.pool.add(connection)
        return connection, wire

    def request(self, body: bytes = b"") -> tuple[Exchange, Client]:
        client = Client()
        exchange = Exchange(self.pool, client, b"POST /score HTTP/1.1\r\n\r\n", body, is_head=False)
        self.pool.send(exchange)
        return exchange, client

    def after(self, seconds: float) -> None:
        self.time += seconds
        self.pool.end_overdue()


def test_request_runs_at_an_idle_replica_and_its_answer_names_the_deployment():
    street = Street()
    connection, wire = street.replica()
    _, client = street.request(b"body")
    assert wire.sent == b"POST /score HTTP/1.1\r\n\r\nbody"
    connection.received(OK)
    assert (client.status, client.body, client.is_ended) == (200, b"hi", True)
    assert client.headers[b"azureml-model-deployment"] == b"blue"
    assert street.pool.idle == type(street.pool.idle)([connection])


def test_waiting_request_gets_the_next_free_replica_in_order():
    street = Street(concurrency=1, instances=2)
    connection, wire = street.replica()
    for body in (b"1", b"2", b"3"):
        street.request(body)
    connection.received(OK)
    assert wire.sent.endswith(b"2")
    connection.received(OK)
    assert wire.sent.endswith(b"3")


def test_request_beyond_twice_the_permits_gets_429():
    street = Street(concurrency=1, instances=1)
    street.replica()
    statuses = [street.request()[1].status for _ in range(3)]
    assert statuses == [0, 0, 429]


def test_no_request_is_refused_because_a_replica_has_just_died():
    street = Street(concurrency=1, instances=2)
    connection, _ = street.replica("a")
    street.replica("b")
    clients = [street.request()[1] for _ in range(4)]
    connection.lost()
    assert [client.status for client in clients] == [0, 0, 0, 0]
    assert street.request()[1].status == 429


def test_request_that_waited_too_long_gets_429_with_replicas_and_503_without():
    street = Street(queue_wait_ms=500, timeout_ms=2000)
    street.replica()
    street.request()
    _, waiting = street.request()
    street.after(0.6)
    assert waiting.status == 429
    empty = Street(timeout_ms=2000, reason="The deployment blue starts.")
    _, client = empty.request()
    empty.after(1.9)
    assert client.status == 0
    empty.after(0.2)
    assert (client.status, client.body) == (503, b"The deployment blue starts.")


def test_request_waits_for_a_first_replica_as_long_as_the_cold_start_may_take():
    street = Street(timeout_ms=1000, cold_start_ms=60_000)
    _, client = street.request()
    street.after(59)
    assert client.status == 0
    connection, _ = street.replica()
    connection.received(OK)
    assert client.status == 200


def test_request_that_runs_too_long_gets_408_and_its_connection_closes():
    street = Street(timeout_ms=1000)
    _, wire = street.replica()
    _, client = street.request()
    street.after(1.1)
    assert (client.status, wire.is_closed) == (408, True)


def test_request_of_a_replica_that_drains_goes_to_another_however_often():
    street = Street(has_retry=False)
    drained = [street.replica(f"r{number}")[0] for number in range(5)]
    last, _ = street.replica("last")
    _, client = street.request()
    for connection in drained:
        connection.received(DRAIN)
        connection.lost()
    last.received(OK)
    assert (client.status, street.pool.numbers.retries_after_drain) == (200, 5)


def test_idle_replica_that_drains_gets_no_request():
    street = Street()
    connection, wire = street.replica()
    connection.received(DRAIN)
    assert (wire.is_closed, len(street.pool.idle), len(street.pool.live)) == (True, 0, 0)


def test_request_of_a_dead_replica_runs_once_more_at_another_replica():
    street = Street()
    first, _ = street.replica("a")
    street.replica("a")
    other, _ = street.replica("b")
    exchange, client = street.request()
    first.lost()
    assert exchange.connection is other
    other.lost()
    assert client.status == 502
    assert b"another replica died of it, too" in client.body


def test_connections_of_a_dead_process_are_avoided_and_its_death_counts_once():
    street = Street()
    first, _ = street.replica("a")
    second, _ = street.replica("a")  # Its end hasn't been seen yet.
    exchange, client = street.request()
    first.lost()
    assert exchange.phase is RequestPhase.WAITING
    second.lost()
    third, _ = street.replica("b")
    third.received(OK)
    assert (client.status, street.pool.numbers.retries_after_death) == (200, 1)


def test_request_of_a_dead_replica_is_not_repeated_where_its_deployment_says_so():
    street = Street(has_retry=False)
    first, _ = street.replica("a")
    street.replica("b")
    _, client = street.request()
    first.lost()
    assert client.status == 502


def test_nothing_is_repeated_after_the_first_byte_of_an_answer():
    street = Street()
    first, _ = street.replica("a")
    street.replica("b")
    _, client = street.request()
    first.received(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
    first.lost()
    assert (client.status, client.body, client.is_cut, client.is_ended) == (200, b"one", True, False)
    assert street.pool.numbers.retries_after_death == 0


def test_pieces_of_an_answer_are_passed_on_as_they_come():
    street = Street(timeout_ms=1000)
    connection, _ = street.replica()
    _, client = street.request()
    connection.received(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
    assert (client.body, client.length, client.is_ended) == (b"one", None, False)
    street.after(10)  # The time-out is over once the answer has begun.
    connection.received(b"3\r\ntwo\r\n0\r\n\r\n")
    assert (client.body, client.is_ended, len(street.pool.idle)) == (b"onetwo", True, 1)


def test_answer_that_stops_for_five_minutes_is_cut():
    street = Street()
    connection, wire = street.replica()
    street.request()
    connection.received(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
    connection.end_if_silent(300)
    assert not wire.is_closed
    connection.end_if_silent(301)
    assert wire.is_closed


@pytest.mark.parametrize(("passes", "status"), [(False, 424), (True, 500)])
def test_error_of_a_model_becomes_424_unless_the_deployment_passes_it(passes: bool, status: int):
    street = Street(passes_errors=passes)
    connection, _ = street.replica()
    _, client = street.request()
    connection.received(b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno")
    assert (client.status, client.body) == (status, b"no")
    assert client.headers.get(b"ms-azureml-model-error-statuscode") == (None if passes else b"500")


def test_client_that_goes_away_frees_its_place_and_ends_its_run():
    street = Street(concurrency=1, instances=1)
    _, wire = street.replica()
    running, _ = street.request()
    waiting, _ = street.request()
    waiting.abandon()
    assert len(street.pool.waiting) == 0
    running.abandon()
    assert wire.is_closed
    assert running.phase is RequestPhase.ENDED


def test_deployment_that_is_being_deleted_answers_what_runs_and_nothing_that_waits():
    street = Street(concurrency=1, instances=1)
    connection, _ = street.replica()
    _, running = street.request()
    _, waiting = street.request()
    street.pool.use(replace(street.pool.route, is_ending=True))
    told = b"The deployment blue of ships is being deleted."
    assert (running.status, waiting.status, waiting.body) == (0, 404, told)
    assert street.request()[1].body == told
    connection.received(OK)
    assert (running.status, running.body) == (200, b"hi")


def test_request_of_a_replica_that_drains_for_the_deletion_of_its_deployment_is_told_so():
    street = Street()
    connection, _ = street.replica()
    _, client = street.request()
    street.pool.use(replace(street.pool.route, is_ending=True))
    connection.received(DRAIN)
    assert (client.status, client.body) == (404, b"The deployment blue of ships is being deleted.")


def test_copy_for_a_mirror_is_dropped_where_no_replica_is_free():
    street = Street()
    connection, _ = street.replica()
    for _ in range(2):
        street.pool.send(Exchange(street.pool, None, b"", b"", is_head=False))
    connection.received(OK)
    numbers = street.pool.numbers
    assert (numbers.mirrored, numbers.dropped_mirrors, dict(numbers.statuses)) == (1, 1, {})


def test_replica_that_is_asked_to_dial_again_takes_requests_after_its_answer():
    street = Street()
    connection, wire = street.replica()
    connection.redial()
    assert wire.sent == REDIAL
    exchange, _ = street.request()
    assert exchange.phase is RequestPhase.WAITING
    assert street.request()[1].status == 0  # A connection that dials again isn't a request.
    assert street.request()[1].status == 429
    connection.received(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert exchange.connection is connection


def test_busy_replica_dials_the_successor_before_its_next_request():
    street = Street(concurrency=1, instances=1)
    connection, wire = street.replica()
    street.request(b"1")
    waiting, _ = street.request(b"2")
    street.pool.hand_over()
    connection.received(OK)
    assert wire.sent.endswith(REDIAL)
    connection.received(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert waiting.connection is connection
    connection.received(OK)
    assert wire.sent.count(REDIAL) == 1


@pytest.mark.parametrize("data", [b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"])
def test_replica_whose_answer_is_no_http_loses_its_connection(data: bytes):
    street = Street()
    connection, wire = street.replica()
    street.request()
    connection.received(data)
    assert wire.is_closed


# --- traffic ----------------------------------------------------------------------------------------------------------
ROUTE = EndpointRoute(
    keys=(digest("one"), digest("two")), traffic={"blue": 90, "green": 10}, mirror={"green": 20},
    deployments={"blue": DeploymentRoute(), "green": DeploymentRoute(), "idle": DeploymentRoute()},
)  # fmt: skip


@pytest.mark.parametrize(
    ("chance", "chosen"),
    [(0.0, "blue"), (0.899, "blue"), (0.9, "green"), (0.999, "green")],
)  # fmt: skip
def test_deployment_is_chosen_by_its_share(chance: float, chosen: str):
    assert TrafficSplit(ROUTE).choose(chance) == chosen


def test_deployment_without_traffic_gets_no_request():
    assert TrafficSplit(replace(ROUTE, traffic={"blue": 0})).choose(0.0) is None
    assert TrafficSplit(replace(ROUTE, traffic={"gone": 100})).choose(0.0) is None
    assert TrafficSplit(replace(ROUTE, traffic={"blue": 30, "green": 10})).choose(0.99) == "green"


def test_mirror_gets_its_share_of_requests():
    assert TrafficSplit(ROUTE).copies(0.19) == ["green"]
    assert TrafficSplit(ROUTE).copies(0.2) == []


# --- admission --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("header", "is_in"),
    [(b"Bearer one", True), (b"bearer two", True), (b"Bearer  two ", True), (b"Bearer three", False), (b"one", False),
     (b"", False), (b"Bearer ", False), (b"Basic one", False), (b"Bearer \xff\xfe", False)],
)  # fmt: skip
def test_both_keys_of_an_endpoint_are_taken_and_nothing_else(header: bytes, is_in: bool):
    assert is_admitted(header, "ships", ROUTE, 0) is is_in


def test_token_is_taken_for_its_hour_and_its_endpoint():
    key = b"k" * 32
    route = replace(ROUTE, auth="aml_token", token_key=key.hex())
    token = scoring_tokens.sign("ships", key, 3600)

    def admits(shown: str, endpoint: str = "ships", now: float = 0) -> bool:
        return is_admitted(f"Bearer {shown}".encode(), endpoint, route, now)

    assert admits(token)
    assert admits(token, now=3599)
    assert not admits(token, now=3600)
    assert not admits(token, endpoint="other")
    assert not admits(scoring_tokens.sign("ships", b"x" * 32, 3600))
    assert not admits(token[:-2] + "AA")
    assert not admits(token.replace(".", "", 1))
    assert not admits("one")


# --- the table and the numbers ----------------------------------------------------------------------------------------
def test_table_is_read_as_it_was_written():
    table = RoutingTable({"ships": ROUTE}, (RouterListener("127.0.0.1", 8443, has_tls=True),), "/c.pem")
    assert table_of(table_to_json(table)) == table


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 2}', '{"version": 1, "endpoints": {"a": {}}, "listeners": []}']
)
def test_table_that_cannot_be_understood_is_refused(text: str):
    with pytest.raises(ValueError, match=r"."):
        table_of(text)


def test_numbers_are_written_for_prometheus():
    street = Street()
    connection, _ = street.replica()
    street.request()
    street.time = 0.02
    connection.received(OK)
    text = as_prometheus([as_json("ships/blue", street.pool.numbers, street.pool.state())])
    label = 'endpoint="ships",deployment="blue"'
    assert f'drumbeat_router_requests_total{{{label},status="200"}} 1\n' in text
    assert f'drumbeat_router_request_seconds_bucket{{{label},le="0.01"}} 0\n' in text
    assert f'drumbeat_router_request_seconds_bucket{{{label},le="0.025"}} 1\n' in text
    assert f"drumbeat_router_permits{{{label}}} 1\n" in text
