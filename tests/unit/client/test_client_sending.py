import collections
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from drumbeat.client.calls.data import DataCalls
from drumbeat.client.connection import TIMEOUT, Connection, OpenConnection, checked, unreachable
from drumbeat.client.discovery import MachineIdentity, ServerLocation
from drumbeat.client.job_events import ReconnectPause, read
from drumbeat.client.job_upload import Given, JobParcel, WrittenJob, default_experiment, written
from drumbeat.model.api.data import DataView
from drumbeat.model.api.jobs import End
from drumbeat.model.errors import ConflictError, DrumbeatError, NotFoundError, UnreachableError
from drumbeat.model.wire import to_wire


@pytest.mark.parametrize(
    ("folder", "name"), [("fashion_mnist", "fashion_mnist"), ("My runs!", "My-runs"), ("_x", "x"), ("…", "default")]
)
def test_an_experiment_is_named_after_the_folder(folder: str, name: str) -> None:
    assert default_experiment(Path("/home") / folder) == name
    assert default_experiment(Path("/")) == "default"


def answer(status: int, **options: object) -> httpx.Response:
    request = httpx.Request("GET", "http://server/api/v1/x")
    return httpx.Response(status, request=request, **options)  # type: ignore[arg-type]


def test_an_answer_is_the_error_that_it_carries() -> None:
    told = ConflictError("taken", where="j", fix="Another.").as_dict()
    with pytest.raises(ConflictError, match="taken"):
        checked(answer(409, json=told))
    with pytest.raises(NotFoundError):
        checked(answer(404, headers={"Drumbeat-Error": "not_found"}))
    with pytest.raises(DrumbeatError, match="of tomorrow"):
        checked(answer(418, json={**told, "code": "teapot", "what": "an error of tomorrow"}))


@pytest.mark.parametrize("options", [{"text": "<html>"}, {"json": []}, {"json": {"detail": "x"}}, {}])
def test_an_answer_of_somebody_else_is_known(options: dict[str, object]) -> None:
    with pytest.raises(UnreachableError, match="isn't a drumbeat server"):
        checked(answer(502, **options))


@pytest.mark.parametrize(
    "kind",
    [
        httpx.ConnectError, httpx.ConnectTimeout, httpx.ReadTimeout, httpx.WriteTimeout, httpx.PoolTimeout,
        httpx.ReadError, httpx.WriteError, httpx.CloseError, httpx.RemoteProtocolError, httpx.LocalProtocolError,
        httpx.ProxyError, httpx.UnsupportedProtocol, httpx.DecodingError, httpx.TooManyRedirects,
    ],
)  # fmt: skip
def test_every_way_not_to_reach_a_server_has_a_sentence(kind: type[httpx.RequestError]) -> None:
    error = kind("")
    if isinstance(error, httpx.TransportError):
        said = unreachable(error, "http://server")
        assert said.what
        assert "http://server" in str(said)


def test_waiting_grows_longer_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, slept = [0.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock[0] += seconds

    monkeypatch.setattr("drumbeat.client.job_events.time.sleep", sleep)
    monkeypatch.setattr("drumbeat.client.job_events.time.monotonic", lambda: clock[0])
    wait = ReconnectPause()
    with pytest.raises(UnreachableError, match="nobody"):
        collections.deque(iter(lambda: wait.pause(UnreachableError("nobody")), "never"), maxlen=0)
    assert slept == sorted(slept)
    assert (slept[0], slept[-1]) == (0.05, 2.0)
    assert 120 < clock[0] < 125


def test_an_event_of_a_later_version_is_passed_over() -> None:
    from httpx_sse import ServerSentEvent

    assert read(ServerSentEvent("fanfare", "{}", "1.1")) is None
    assert read(ServerSentEvent("end", '{"state":"failed","exit_code":3,"new":1}', "1.1")) == End("failed", 3)


def test_paths_and_experiment_count_from_the_files_folder_or_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hello").mkdir()
    (tmp_path / "hello" / "job.yml").write_text("command: echo hi\n")
    assert written("hello/job.yml", Given()).base == tmp_path / "hello"
    assert written({"command": "echo hi"}, Given()).base == tmp_path


class UnusedConnection(Connection):
    """A connection over which a parcel that isn't sent asks nothing."""

    def __init__(self) -> None:
        super().__init__(ServerLocation(Path("/nowhere"), "http://127.0.0.1:1", "token"))


def parcel(document: dict[str, Any], base: Path, connection: Connection | None = None) -> JobParcel:
    return JobParcel(WrittenJob(document, base, "job.yml"), connection or UnusedConnection(), is_sending=False)


@pytest.mark.parametrize("form", ["my src", "file:my%20src", "file:///{base}/my%20src", "file://my%20src"])
def test_code_is_packed_from_a_folder_named_by_a_path_or_a_url(form: str, tmp_path: Path) -> None:
    (tmp_path / "my src").mkdir()
    (tmp_path / "my src" / "train.py").write_text("print()")
    document = {"command": "x", "code": form.format(base=str(tmp_path)[1:])}
    digest = parcel(document, tmp_path).code()
    assert digest
    assert digest == parcel({"code": "my src"}, tmp_path).code()


def test_code_of_another_place_is_left_to_the_server(tmp_path: Path) -> None:
    assert parcel({"command": "x", "code": "s3://bucket/code"}, tmp_path).code() is None


class WithAShare(UnusedConnection):
    """A connection to a server whose compute has a share."""

    is_here = True

    def call(self, method: str, path: str, **_: object) -> Any:
        shares = [{"name": "data", "type": "nfs", "path": "/mnt/data"}]
        return [] if path == "/aliases" else {"spec": {"name": "c", "type": "slurm", "folder": "/s", "shares": shares}}


@pytest.mark.parametrize(
    "form", ["/mnt/data/my set", "file:///mnt/data/my%20set", "file://localhost/mnt/data/my%20set"]
)
def test_an_input_on_a_share_is_named_by_its_path_or_a_url(form: str, tmp_path: Path) -> None:
    document = {"compute": "c", "inputs": {"d": {"type": "uri_folder", "path": form}}}
    assert parcel(document, tmp_path, WithAShare()).inputs() == {"d": "file:///mnt/data/my%20set"}


@pytest.mark.parametrize("path", ["azureml:set:1", "https://x/set", "here", "file:here"])
def test_an_input_that_is_not_on_the_share_is_not_looked_for_there(path: str, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    found = parcel({"compute": "c", "inputs": {"d": {"path": path}}}, tmp_path, WithAShare()).inputs()
    assert [*found] == (["d"] if "here" in path else [])
    assert not any(uri.startswith("file:") for uri in found.values())


class AfterARestart(Connection):
    """A connection whose server is gone at the first call, and then answers with an error."""

    def __init__(self) -> None:
        super().__init__(ServerLocation(Path("/nowhere"), "http://127.0.0.1:1", "token"))
        self.calls = 0

    def _opened(self, *, is_starting: bool) -> OpenConnection:
        del is_starting
        http = httpx.Client(base_url="http://server", timeout=TIMEOUT, transport=httpx.MockTransport(self._answer))
        return OpenConnection(http, "http://server", MachineIdentity("host", "boot"))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.calls += 1
        if self.calls == 1:
            raise httpx.RemoteProtocolError("gone", request=request)
        return httpx.Response(404, json=NotFoundError("no job j").as_dict())


def test_a_second_try_that_is_answered_with_an_error_leaves_the_usual_timeout() -> None:
    connection = AfterARestart()
    with pytest.raises(NotFoundError, match="no job j"):
        connection.call("GET", "/jobs/j")
    assert (connection.calls, connection.line.http.timeout) == (2, TIMEOUT)
    connection.close()


class SlowStore(Connection):
    """A connection whose server has a store that takes five minutes to list its files; the rest takes none."""

    def __init__(self) -> None:
        super().__init__(ServerLocation(Path("/nowhere"), "http://127.0.0.1:1", "token"))

    def _opened(self, *, is_starting: bool) -> OpenConnection:
        del is_starting
        http = httpx.Client(base_url="http://server", timeout=TIMEOUT, transport=httpx.MockTransport(self._answer))
        return OpenConnection(http, "http://server", MachineIdentity("host", "boot"))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if request.extensions["timeout"]["read"] < 300:
            raise httpx.ReadTimeout("slow", request=request)
        if request.url.path.endswith("/data"):
            now = datetime(2026, 11, 27, tzinfo=UTC)
            made = DataView("d", "1", "uri_folder", "s3://b/d", "digest", now, "", "", {}, 1, 1)
            return httpx.Response(201, json=to_wire(made))
        return httpx.Response(200, json={"uri": "s3://b", "key": "k", "size": 0, "files": []})


def test_a_store_that_takes_long_to_list_its_files_is_waited_for() -> None:
    calls = DataCalls()
    calls.connection = SlowStore()
    assert calls.create_data({"name": "d", "path": "s3://b/d"}).version == "1"
    assert calls.list_files("s3://b/d").files == ()
    with pytest.raises(UnreachableError, match="the server has not answered for 60 s"):
        calls.entries("s3://b/d")
    calls.connection.close()
