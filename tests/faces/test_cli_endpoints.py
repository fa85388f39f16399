"""`drumbeat online-endpoint` and `online-deployment`: what is sent, what is printed, and what is refused."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner, Result

from drumbeat.cli.main import app
from drumbeat.cli.terminal.connect import MAKER
from drumbeat.client import Client
from drumbeat.client.connection import Connection
from drumbeat.client.discovery import ServerLocation
from drumbeat.model import wire
from drumbeat.model.api.endpoints import DeploymentView, EndpointKeys, EndpointState, EndpointToken, EndpointView
from drumbeat.model.endpoints import OnlineDeployment, OnlineEndpoint
from drumbeat.model.errors import NotFoundError

pytestmark = pytest.mark.feature("R2")

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
FILE = "name: blue\nendpoint_name: digits\ncode_configuration: {code: ./src, scoring_script: score.py}\n"


@dataclass
class EndpointsAtServer:
    """The connection to a server that keeps endpoints and deployments, and answers by the API's own views.

    states: of each deployment, one for each time that it is asked for; the last one stays.
    """

    endpoints: dict[str, OnlineEndpoint] = field(default_factory=dict)
    deployments: dict[str, OnlineDeployment] = field(default_factory=dict)
    states: list[tuple[EndpointState, str]] = field(default_factory=lambda: [("ready", "")])
    snapshots: dict[str, bytes] = field(default_factory=dict)
    keys: EndpointKeys = field(default_factory=lambda: EndpointKeys("first", "second"))
    uri: str = "http://127.0.0.1:1/endpoints/digits/score"
    calls: list[str] = field(default_factory=list)
    where: ServerLocation = field(default_factory=lambda: ServerLocation(Path("/home/ada/.drumbeat")))

    def call(self, method: str, path: str, *, json: Any = None, params: Any = None, **_: Any) -> Any:
        del params
        self.calls.append(f"{method} {path}")
        parts = path.strip("/").split("/")
        if parts[0] != "online-endpoints":
            raise NotFoundError(f"there is no {path}")
        answer = self._deployments if "deployments" in parts else self._endpoints
        return wire.to_wire(answer(method, parts, json))

    def send(self, method: str, path: str) -> None:
        if path.rpartition("/")[2] not in self.snapshots:
            raise NotFoundError(f"{method}: there is no {path}")

    def upload(self, path: str, pieces: Any, size: int) -> None:
        del size
        given = pieces() if callable(pieces) else pieces
        self.snapshots[path.rpartition("/")[2]] = b"".join(cast("Iterable[bytes]", given))

    def _endpoints(self, method: str, parts: list[str], body: Any) -> Any:
        if len(parts) == 1:
            return [self._endpoint_view(one) for one in self.endpoints.values()]
        if method == "PUT":
            self.endpoints[parts[1]] = wire.from_wire(OnlineEndpoint, body)
        if parts[1] not in self.endpoints:
            raise NotFoundError(f"there is no endpoint {parts[1]}")
        if parts[2:] == ["token"]:
            return EndpointToken("a-token", NOW)
        if parts[2:3] == ["keys"]:
            if method == "POST":
                self.keys = EndpointKeys("new", "second") if parts[3] == "primary" else EndpointKeys("first", "new")
            return self.keys
        if method == "DELETE":
            return self.endpoints.pop(parts[1]) and None
        return self._endpoint_view(self.endpoints[parts[1]])

    def _deployments(self, method: str, parts: list[str], body: Any) -> Any:
        if len(parts) == 3:
            return [self._deployment_view(one) for one in self.deployments.values()]
        name = parts[3]
        if method == "PUT":
            self.deployments[name] = wire.from_wire(OnlineDeployment, body)
        if name not in self.deployments:
            raise NotFoundError(f"there is no deployment {name}")
        if parts[4:] == ["logs"]:
            return {"text": "loading\nserving \x1b[31mred\n"}
        if method == "DELETE":
            return self.deployments.pop(name) and None
        return self._deployment_view(self.deployments[name])

    def _endpoint_view(self, one: OnlineEndpoint) -> EndpointView:
        return EndpointView(one, "ready", self.uri, NOW, deployments=tuple(self.deployments))

    def _deployment_view(self, one: OnlineDeployment) -> DeploymentView:
        state, sentence = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        ready = one.instance_count if state == "ready" else 0
        return DeploymentView(one, state, NOW, 1, "digits-blue-1", ready, one.instance_count, sentence, one.notes)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EndpointsAtServer]:
    """A server, and a folder with a deployment's file that is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setattr("drumbeat.client.calls.endpoints.POLL_S", 0)
    fake = EndpointsAtServer()
    client = Client(url="http://127.0.0.1:1", token="t")
    client.connection = cast("Connection", fake)
    token = MAKER.set(lambda _: client)
    Path("src").mkdir()
    Path("src/score.py").write_text("def init(): pass\ndef run(data): return data\n")
    Path("blue.yml").write_text(FILE)
    yield fake
    MAKER.reset(token)


def typed(*words: str) -> Result:
    return CliRunner().invoke(app, [*words])


def ok(*words: str) -> str:
    done = typed(*words)
    assert done.exit_code == 0, done.output
    return done.stdout


def refused(*words: str) -> str:
    done = typed(*words)
    assert done.exit_code != 0, done.output
    return done.output


# --- endpoints ------------------------------------------------------------------------------------------------------
def test_endpoint_is_created_by_name_alone_and_from_a_file(server: EndpointsAtServer):
    assert "endpoint digits created" in ok("online-endpoint", "create", "digits")
    Path("e.yml").write_text("name: letters\nauth_mode: aml_token\npublic_network_access: disabled\n")
    done = typed("online-endpoint", "create", "-f", "e.yml", "--set", "tags.team=x")
    assert "public_network_access is ignored" in done.stderr
    assert server.endpoints == {
        "digits": OnlineEndpoint(name="digits"),
        "letters": OnlineEndpoint(name="letters", auth_mode="aml_token", tags={"team": "x"}),
    }


def test_traffic_is_divided_and_taken_away(server: EndpointsAtServer):
    ok("online-endpoint", "create", "--name", "digits")
    ok("online-endpoint", "update", "digits", "--traffic", "blue=90 green=10", "--mirror-traffic", "red=5")
    assert server.endpoints["digits"].traffic == {"blue": 90, "green": 10}
    assert server.endpoints["digits"].mirror_traffic == {"red": 5}
    assert "blue 90 %, green 10 %" in ok("online-endpoint", "show", "digits")
    ok("online-endpoint", "update", "--name", "digits", "--traffic", "")
    assert server.endpoints["digits"].traffic == {}


@pytest.mark.parametrize(
    ("shares", "says"),
    [("blue", "isn't `deployment=percent`"), ("blue=x", "isn't"), ("blue=5 blue=6", "there twice"), ("=5", "isn't")],
)
def test_shares_that_cannot_be_read_are_refused(server: EndpointsAtServer, shares: str, says: str):
    ok("online-endpoint", "create", "digits")
    assert says in refused("online-endpoint", "update", "digits", "--traffic", shares)
    assert server.endpoints["digits"].traffic == {}


def test_endpoint_is_changed_by_settings_and_unknown_ones_are_refused(server: EndpointsAtServer):
    ok("online-endpoint", "create", "digits")
    ok("online-endpoint", "update", "digits", "--set", "description=new", "--set", "tags.a=b")
    assert (server.endpoints["digits"].description, server.endpoints["digits"].tags) == ("new", {"a": "b"})
    assert "no key 'trafic'" in refused("online-endpoint", "update", "digits", "--set", "trafic=1")


def test_keys_are_printed_and_one_is_renewed(server: EndpointsAtServer):
    ok("online-endpoint", "create", "digits")
    ok("online-endpoint", "regenerate-keys", "digits", "--key-type", "secondary")
    assert json.loads(ok("online-endpoint", "get-credentials", "digits", "--json")) == {
        "primary": "first",
        "secondary": "new",
    }


def test_endpoint_with_tokens_prints_a_token(server: EndpointsAtServer):
    ok("online-endpoint", "create", "digits", "--auth-mode", "aml_token")
    assert "a-token" in ok("online-endpoint", "get-credentials", "-n", "digits")
    assert server.endpoints["digits"].auth_mode == "aml_token"


def test_endpoint_is_listed_and_deleted(server: EndpointsAtServer):
    assert "no endpoints" in ok("online-endpoint", "list")
    ok("online-endpoint", "create", "digits")
    assert "digits" in ok("online-endpoint", "list")
    assert "endpoint digits deleted" in ok("online-endpoint", "delete", "digits", "--yes")
    assert server.endpoints == {}


def test_endpoint_without_a_name_or_with_a_bad_one_is_refused(server: EndpointsAtServer):
    assert "give a name" in refused("online-endpoint", "create")
    assert "3 to 32 characters" in refused("online-endpoint", "create", "a_b")
    assert "two names" in refused("online-endpoint", "show", "one", "--name", "two")
    assert "there is no endpoint digits" in refused("online-endpoint", "show", "digits")
    assert server.endpoints == {}


# --- requests -------------------------------------------------------------------------------------------------------
class EchoingEndpoint(BaseHTTPRequestHandler):
    """Answers with the body, or with 424 where the body says so, and keeps the headers."""

    seen: list[dict[str, str]]

    def do_POST(self) -> None:
        type(self).seen.append({key.lower(): value for key, value in self.headers.items()})
        body = self.rfile.read(int(self.headers["Content-Length"]))
        is_bad = body == b"bad"
        self.send_response(424 if is_bad else 200)
        if is_bad:
            self.send_header("ms-azureml-model-error-statuscode", "500")
        answer = b'{"message": "it broke"}' if is_bad else body
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        """Writes nothing."""


@pytest.fixture
def seen(server: EndpointsAtServer) -> Iterator[list[dict[str, str]]]:
    """The headers of the requests that arrive at the endpoint `digits`."""
    EchoingEndpoint.seen = []
    listener = HTTPServer(("127.0.0.1", 0), EchoingEndpoint)
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    server.uri = f"http://127.0.0.1:{listener.server_port}/endpoints/digits/score"
    ok("online-endpoint", "create", "digits")
    yield EchoingEndpoint.seen
    listener.shutdown()
    thread.join()
    listener.server_close()


def test_request_is_sent_with_the_key_and_its_answer_printed(seen: list[dict[str, str]]):
    Path("request.json").write_bytes(b'{"data": [1]}')
    assert ok("online-endpoint", "invoke", "digits", "--request-file", "request.json") == '{"data": [1]}'
    ok("online-endpoint", "invoke", "-n", "digits", "--data", "{}", "--deployment-name", "blue")
    assert [one["authorization"] for one in seen] == ["Bearer first", "Bearer first"]
    assert [one.get("azureml-model-deployment") for one in seen] == [None, "blue"]
    assert {one["content-type"] for one in seen} == {"application/json"}


def test_request_that_the_model_fails_ends_with_its_words(seen: list[dict[str, str]]):
    said = refused("online-endpoint", "invoke", "digits", "--data", "bad")
    assert "answered 424" in said
    assert "(the model answered 500): it broke" in said
    assert len(seen) == 1


def test_request_without_a_body_or_to_nobody_is_refused(server: EndpointsAtServer):
    ok("online-endpoint", "create", "digits")
    assert "needs a body" in refused("online-endpoint", "invoke", "digits")
    assert "can't be read" in refused("online-endpoint", "invoke", "digits", "-r", "none.json")
    assert "can't be reached" in refused("online-endpoint", "invoke", "digits", "-d", "{}")
    assert typed("online-endpoint", "invoke", "digits", "-d", "{}").exit_code == 4
    assert server.endpoints


# --- deployments ----------------------------------------------------------------------------------------------------
def test_deployment_is_followed_until_it_is_ready_and_gets_all_traffic(server: EndpointsAtServer):
    ok("online-endpoint", "create", "digits")
    server.states = [("creating", ""), ("creating", "staging code"), ("creating", "staging code"), ("ready", "")]
    done = typed("online-deployment", "create", "-f", "blue.yml", "--all-traffic", "--set", "instance_count=2")
    assert done.exit_code == 0, done.output
    assert done.stderr.splitlines() == [
        "deployment blue is creating, 0 of 2 replicas answer: staging code",
        "deployment blue is ready, 2 of 2 replicas answer",
    ]
    assert "100 % of the requests" in done.stdout
    assert server.endpoints["digits"].traffic == {"blue": 100}
    sent = server.deployments["blue"]
    assert (sent.scoring_script, sent.instance_count) == ("score.py", 2)
    assert sent.code in server.snapshots


def test_deployment_that_fails_ends_with_its_sentence_and_keeps_traffic(server: EndpointsAtServer):
    ok("online-endpoint", "create", "digits")
    server.states = [("creating", ""), ("failed", "the script raised ValueError")]
    done = typed("online-deployment", "create", "-f", "blue.yml", "--all-traffic")
    assert done.exit_code == 1
    assert "isn't ready: the script raised ValueError" in done.stderr
    assert "get-logs blue -e digits" in done.stderr
    assert server.endpoints["digits"].traffic == {}


def test_deployment_without_traffic_is_told_how_to_get_it(server: EndpointsAtServer):
    ok("online-endpoint", "create", "digits")
    assert '--traffic "blue=100"' in ok("online-deployment", "create", "-f", "blue.yml")
    assert server.endpoints["digits"].traffic == {}


def test_deployment_is_refused_before_anything_is_sent(server: EndpointsAtServer):
    assert "there is no endpoint digits" in refused("online-deployment", "create", "-f", "blue.yml")
    ok("online-endpoint", "create", "digits")
    said = refused(
        "online-deployment", "create", "-f", "blue.yml", "--set", "code_configuration.scoring_script=scor.py"
    )
    assert "there is no scor.py in ./src" in said
    assert "score.py" in said.partition("→")[2]
    assert "there is nothing at ./sr" in refused(
        "online-deployment", "create", "-f", "blue.yml", "--set", "code_configuration.code=./sr"
    )
    assert "name the file" in refused("online-deployment", "create", "blue")
    assert "doesn't wait" in refused("online-deployment", "create", "-f", "blue.yml", "--all-traffic", "--no-wait")
    assert server.deployments == {}


def test_problem_of_a_file_is_told_at_its_line(server: EndpointsAtServer):
    Path("bad.yml").write_text(FILE + "instance_count: none\n")
    said = refused("online-deployment", "create", "-f", "bad.yml")
    assert "bad.yml:4:17" in said
    assert server.calls == []


def test_deployment_is_scaled_changed_and_shown(server: EndpointsAtServer):
    ok("online-endpoint", "create", "digits")
    ok("online-deployment", "create", "-f", "blue.yml")
    ok("online-deployment", "scale", "blue", "-e", "digits", "--instances", "3")
    assert server.deployments["blue"].instance_count == 3
    ok("online-deployment", "update", "blue", "-e", "digits", "--set", "request_settings.request_timeout_ms=900")
    assert server.deployments["blue"].request_settings.request_timeout_ms == 900
    assert server.deployments["blue"].instance_count == 3
    shown = ok("online-deployment", "show", "blue", "--endpoint", "digits")
    assert "3 of 3 answer" in shown
    assert "900 ms at most" in shown
    assert "blue" in ok("online-deployment", "list", "-e", "digits")
    assert json.loads(ok("online-deployment", "show", "blue", "-e", "digits", "--json"))["state"] == "ready"


def test_deployment_that_scales_by_its_use_is_not_scaled_by_hand(server: EndpointsAtServer):
    ok("online-endpoint", "create", "digits")
    Path("blue.yml").write_text(FILE + "scale_settings: {max_instances: 3}\n")
    ok("online-deployment", "create", "-f", "blue.yml")
    assert "as their use asks for" in refused("online-deployment", "scale", "blue", "-e", "digits", "--instances", "2")
    assert server.deployments["blue"].instance_count == 1


def test_update_of_what_is_not_there_is_refused(server: EndpointsAtServer):
    ok("online-endpoint", "create", "digits")
    assert "there is no deployment blue" in refused("online-deployment", "update", "-f", "blue.yml")
    assert server.deployments == {}


def test_logs_are_printed_without_what_would_move_the_cursor(server: EndpointsAtServer):
    ok("online-endpoint", "create", "digits")
    ok("online-deployment", "create", "-f", "blue.yml")
    said = ok("online-deployment", "get-logs", "blue", "-e", "digits", "--lines", "10")
    assert said.splitlines()[0] == "loading"
    assert "\x1b" not in said
    assert server.deployments


def test_deployment_is_deleted(server: EndpointsAtServer):
    ok("online-endpoint", "create", "digits")
    ok("online-deployment", "create", "-f", "blue.yml")
    assert "deployment blue deleted" in ok("online-deployment", "delete", "blue", "-e", "digits")
    assert server.deployments == {}
    assert "name the endpoint" in refused("online-deployment", "delete", "blue")
