"""Commands and services beside the ranks of a running job, as users reach them."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import websockets.sync.client as websocket
from websockets.exceptions import ConnectionClosed, InvalidStatus

from drumbeat.ml import MLClient
from drumbeat.model.errors import ConflictError, NotFoundError, RefusedError
from tools.installer import run_installer
from tools.kept_folder import KEPT

from . import places
from .browsers import DRIVER, find_browser, find_packages
from .house import DRUMBEAT, House, a_house, line_of, until

HERE = Path(__file__).parent
COMMAND = f"{sys.executable} echo_service.py"


BROWSERS = contextlib.ExitStack()
"""Closed after each test."""


@pytest.fixture(autouse=True)
def _closed_browsers() -> Iterator[None]:
    yield
    BROWSERS.close()


@dataclass
class Running:
    """A job whose ranks run until the test cancels it."""

    house: House
    job: str

    def exec(self, *words: str, **options: object) -> subprocess.CompletedProcess[bytes]:
        """Runs `drumbeat exec`."""
        return subprocess.run(
            [DRUMBEAT, "exec", self.job, *words], env=self.house.environment, capture_output=True, timeout=120,
            check=False, **{"stdin": subprocess.DEVNULL, **options},
        )  # type: ignore[call-overload] # fmt: skip

    def open(self, service: str, node: int = 0) -> httpx.Client:
        """Opens a service as a browser does: by its link, which gives a cookie."""
        link = self.house.client.service_link(self.job, service, node).url
        origin = link.partition("/drumbeat-open/")[0]
        browser = BROWSERS.enter_context(httpx.Client(base_url=origin, trust_env=False, timeout=60))
        assert browser.get(link).status_code == 200
        assert httpx.get(link, trust_env=False).status_code == 410, "a link works once"
        return browser

    def is_up(self, service: str) -> bool:
        return any(one.name == service and one.is_running for one in self.house.client.get(self.job).services)

    def until_up(self, service: str) -> None:
        until(lambda: self.is_up(service), 120, f"service {service}")


def running(house: House, command: str = "sleep 600", **keys: str) -> Running:
    house.script((HERE / "echo_service.py").read_text(), file="echo_service.py")
    job = house.client.submit(house.job_file(command=command, code=".", **keys)).name
    until(lambda: house.client.get(job).state == "running", 120, "the job")
    return Running(house, job)


SERVICES = f"""
  echo: {{type: web, properties: {{command: exec {COMMAND}}}}}
  gone: {{type: web, properties: {{command: "echo no such thing >&2; exit 9"}}}}
  shell: {{type: ssh}}"""


@pytest.fixture(scope="module")
def two_ranks(house: House) -> Iterator[Running]:
    """Two ranks with services; the tests of this file share it."""
    distribution = "{type: pytorch, process_count_per_instance: 2}"
    there = running(house, distribution=distribution, services=SERVICES, environment_variables="{OWN: value}")
    yield there
    with contextlib.suppress(ConflictError):  # The last test may have ended it.
        house.client.cancel(there.job)
    assert house.client.wait(there.job, 60)
    assert not [one for one in house.processes() if "echo_service" in line_of(one)]


@pytest.mark.feature("M10")
def test_exec_runs_beside_its_rank_and_passes_input_output_and_exit_code(two_ranks: Running):
    script = 'cat; echo "rank $RANK $OWN $(basename $PWD) ${DRUMBEAT_METRICS-unset}"; echo loud >&2; exit 7'
    done = two_ranks.exec("--rank", "1", "--", "bash", "-c", script, stdin=None, input=b"first\n")
    assert done.returncode == 7
    assert done.stdout == b"first\nrank 1 value code unset\n"
    assert done.stderr == b"loud\n"
    assert two_ranks.house.client.get(two_ranks.job).state == "running"


@pytest.mark.feature("M10")
def test_exec_beside_a_rank_that_does_not_exist_is_refused(two_ranks: Running):
    with pytest.raises(RefusedError, match="has no rank 2"):
        two_ranks.house.client.start_session(two_ranks.job, ["ls"], rank=2)
    with pytest.raises(RefusedError, match="has no node 5"):
        two_ranks.house.client.start_session(two_ranks.job, ["ls"], node=5)


@pytest.mark.feature("M7", "X1")
def test_service_answers_its_person_and_gets_nothing_of_drumbeats(two_ranks: Running):
    two_ranks.until_up("echo")
    browser = two_ranks.open("echo")
    browser.cookies.set("drumbeat-page", "secret")
    browser.cookies.set("own", "1")
    answer = browser.get("/any/path")
    seen = answer.json()
    assert (seen["cookie"], seen["host"]) == ("own=1", "localhost")
    assert [value for name, value in answer.headers.multi_items() if name == "set-cookie"] == ["own=1"]
    assert browser.post("/", content=bytes(3_000_000)).text == "3000000"
    token = (two_ranks.house.home / "token").read_text().strip()
    program = httpx.get(browser.base_url, headers={"Authorization": f"Bearer {token}"}, trust_env=False)
    assert "authorization" not in program.json()


@pytest.mark.feature("M7", "J8")
def test_azures_sdk_gets_an_address_that_opens_a_service_and_why_another_fails(two_ranks: Running):
    two_ranks.until_up("echo")
    client = MLClient()
    client.__dict__["client"] = two_ranks.house.client
    until(lambda: client.jobs.show_services(two_ranks.job)["gone"].error, 60, "the end of the service")
    services = client.jobs.show_services(two_ranks.job)
    assert {name: one.status for name, one in services.items()} == {
        "echo": "Running", "gone": "Failed", "shell": "Running",
    }  # fmt: skip
    assert "no such thing" in services["gone"].error
    assert (services["gone"].endpoint, services["shell"].endpoint) == (None, None)
    assert services["shell"].properties == {"command": f"drumbeat ssh {two_ranks.job}"}
    with httpx.Client(trust_env=False, timeout=60) as browser:
        assert browser.get(services["echo"].endpoint, follow_redirects=True).status_code == 200
    assert client.jobs.show_services(two_ranks.job, node_index=3) is None


@pytest.mark.feature("M7", "X1")
@pytest.mark.parametrize(
    "headers", [{"Origin": "http://127.0.0.1:1"}, {"Sec-Fetch-Site": "same-site"}, {"Host": "evil.example"}]
)
def test_page_of_another_origin_can_not_use_a_service(two_ranks: Running, headers: dict[str, str]):
    two_ranks.until_up("echo")
    assert two_ranks.open("echo").get("/", headers=headers).status_code == 403


@pytest.mark.feature("M7", "X1")
def test_service_is_closed_to_strangers_and_to_cookies_of_other_services(two_ranks: Running):
    two_ranks.until_up("echo")
    browser = two_ranks.open("echo")
    (name, value), *_ = browser.cookies.items()
    assert httpx.get(browser.base_url, trust_env=False).status_code == 401
    changed = {"Cookie": f"{name}={value[:-1]}{'0' if value[-1] != '0' else '1'}"}
    assert httpx.get(browser.base_url, headers=changed, trust_env=False).status_code == 401


@pytest.mark.feature("M7")
def test_web_socket_passes_and_one_of_another_origin_does_not(two_ranks: Running):
    two_ranks.until_up("echo")
    browser = two_ranks.open("echo")
    origin = str(browser.base_url)
    (name, value), *_ = browser.cookies.items()
    address, cookie = f"{origin.replace('http', 'ws')}/socket", {"Cookie": f"{name}={value}"}
    with websocket.connect(address, additional_headers=cookie, origin=origin, proxy=None) as line:
        line.send("short")
        line.send(bytes(200_000))
        assert (line.recv(), line.recv()) == ("short", bytes(200_000))
    with pytest.raises(InvalidStatus):
        websocket.connect(address, additional_headers=cookie, origin="http://evil.example", proxy=None)


@pytest.mark.feature("M7")
def test_service_that_ends_is_reported_and_harms_nobody(two_ranks: Running):
    def problem() -> str:
        return next(one.problem for one in two_ranks.house.client.get(two_ranks.job).services if one.name == "gone")

    until(problem, 60, "the report")
    assert problem() == "ended with exit code 9: no such thing"
    with pytest.raises(ConflictError, match="ended with exit code 9"):
        two_ranks.house.client.service_link(two_ranks.job, "gone")
    with pytest.raises(NotFoundError, match="has no service other"):
        two_ranks.house.client.service_link(two_ranks.job, "other")
    story = " ".join(line.sentence for line in two_ranks.house.client.get(two_ranks.job).story)
    assert "service gone on node 0 ended with exit code 9" in story
    shown = two_ranks.house.run("show", two_ranks.job).stdout
    assert "drumbeat ssh" in shown
    assert f"drumbeat open {two_ranks.job} echo" in shown


# --- more of it -----------------------------------------------------------------------------------------------------
@pytest.mark.thorough
@pytest.mark.feature("M10")
def test_exec_in_a_terminal_has_its_size_and_passes_ctrl_c(two_ranks: Running):
    child, master = pty.fork()
    if child == 0:
        command = [DRUMBEAT, "exec", two_ranks.job, "--", "bash", "-c", "stty size; tty; sleep 600"]
        os.execve(command[0], command, {**two_ranks.house.environment})
    import fcntl
    import struct
    import termios

    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
    said = b""
    while b"/dev/pts" not in said:
        said += os.read(master, 4096)
    os.write(master, b"\x03")
    _, status = os.waitpid(child, 0)
    os.close(master)
    assert os.waitstatus_to_exitcode(status) == 130
    assert b"33 99" in said


@pytest.mark.thorough
@pytest.mark.feature("M10")
def test_command_of_a_person_who_disconnects_gets_sighup(two_ranks: Running):
    file = two_ranks.house.folder / "hung-up"
    script = f"trap 'touch {file}; exit' HUP; echo ready; while :; do sleep 0.1; done"
    session = subprocess.Popen(
        [DRUMBEAT, "exec", two_ranks.job, "--", "bash", "-c", script], env=two_ranks.house.environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert session.stdout
    assert session.stdout.readline() == b"ready\n"
    session.kill()
    session.communicate()
    until(file.exists, 30, "SIGHUP")


@pytest.mark.thorough
@pytest.mark.feature("M10")
def test_command_that_does_not_exist_is_reported_with_exit_code_127(two_ranks: Running):
    missing = two_ranks.exec("--", "no-such-program")
    assert (missing.returncode, b"can't be run: No such file" in missing.stderr) == (127, True)


@pytest.mark.thorough
@pytest.mark.feature("M10")
def test_much_input_and_output_pass_whole(two_ranks: Running):
    data = os.urandom(1 << 20) * 30
    assert two_ranks.exec("--", "cat", stdin=None, input=data).stdout == data


@pytest.mark.thorough
@pytest.mark.feature("M7", "M10")
def test_readers_can_neither_run_commands_nor_open_services(two_ranks: Running):
    house = two_ranks.house
    token = house.run("token", "create", "rita", "--role", "reader").stdout.split()[-1]
    url = house.client.connection.line.url
    reader = {"Authorization": f"Bearer {token}"}
    asked = [("sessions", {"argv": ["ls"]}), ("services/echo/links", None)]
    for path, body in asked:
        answer = httpx.post(f"{url}/api/v1/jobs/{two_ranks.job}/{path}", headers=reader, json=body, trust_env=False)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    port = two_ranks.open("echo").base_url
    assert httpx.get(port, headers=reader, trust_env=False).status_code == 403
    assert f"/api/v1/jobs/{two_ranks.job}/sessions 403" in (house.home / "audit.log").read_text()


@pytest.mark.thorough
@pytest.mark.feature("M7")
def test_services_start_again_with_their_ranks(tmp_path: Path):
    with a_house(tmp_path) as house:
        command = (
            '"if [ -e $DRUMBEAT_CHECKPOINT_DIR/once ]; then sleep 600; fi; touch $DRUMBEAT_CHECKPOINT_DIR/once; exit 1"'
        )
        there = running(
            house, command, drumbeat="{max_retries: 2}", resources="{instance_count: 2}",
            services=f"\n  echo: {{type: web, nodes: all, properties: {{command: exec {COMMAND}}}}}",
        )  # fmt: skip
        until(lambda: house.client.get(there.job).round > 1, 120, "the second round")
        until(lambda: [one.is_running for one in house.client.get(there.job).services] == [True, True], 120)
        browser = there.open("echo", node=1)  # What the job says of its services may still be of the first round.
        until(lambda: browser.get("/").status_code == 200, 60)


@pytest.mark.thorough
@pytest.mark.feature("M7", "M10")
def test_nodes_that_no_server_can_reach_serve_persons(tmp_path: Path):
    with places.netlab(tmp_path) as place:
        there = running(
            place.house, compute=place.compute, resources="{instance_count: 2}",
            services=f"\n  echo: {{type: web, nodes: all, properties: {{command: exec {COMMAND}}}}}",
        )  # fmt: skip
        assert there.exec("--rank", "1", "--", "sh", "-c", "echo $NODE_RANK; exit 4").stdout == b"1\n"
        until(lambda: [one.is_running for one in place.house.client.get(there.job).services] == [True, True], 120)
        assert there.open("echo", node=1).post("/", content=bytes(300_000)).text == "300000"
        place.house.client.cancel(there.job)
        assert place.house.client.wait(there.job, 60)


@pytest.mark.thorough
@pytest.mark.feature("M7")
def test_tensorboard_shows_what_a_job_writes(own_house: House):
    pytest.importorskip("tensorboard", reason="pip install tensorboard")
    there = running(own_house, services="\n  board: {type: tensor_board, log_dir: runs}")
    there.until_up("board")
    browser = there.open("board")
    until(lambda: browser.get("/data/logdir").status_code == 200, 120, "TensorBoard")
    assert browser.get("/data/logdir").json() == {"logdir": "runs"}
    assert "<html" in browser.get("/").text


@pytest.mark.thorough
@pytest.mark.feature("M7", "X1")
def test_hostile_page_of_a_service_can_not_act_as_its_person(own_house: House):
    chromium, packages = find_browser(), find_packages()
    service = f"{{type: web, properties: {{command: exec {COMMAND}}}}}"
    there = running(own_house, services=f"\n  first: {service}\n  second: {service}")
    for name in ("first", "second"):
        there.until_up(name)
        there.open(name).get("/")
    errand = {
        "playwright": str(packages / "playwright-core" / "index.mjs"), "chromium": chromium,
        "link": own_house.run("ui", "--print").stdout.strip(), "job": there.job,
    }  # fmt: skip
    script = DRIVER.with_name("hostile-service.mjs")
    done = subprocess.run(
        ["node", str(script)], input=json.dumps(errand), capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    seen = json.loads(done.stdout)
    assert len({seen["own"], seen["other"], own_house.client.connection.line.url}) == 3
    assert {one.partition(" ")[0] for one in seen["answers"]} == {"403"}
    assert f"403 POST /api/v1/jobs/{there.job}/cancel" in seen["answers"]
    assert seen["tries"]["read jobs"] == "blocked"
    assert (seen["tries"]["cookies"], seen["tries"]["opener"]) == ("own=1", "null")
    assert own_house.client.get(there.job).state == "running"


@pytest.mark.thorough
@pytest.mark.feature("M7")
@pytest.mark.timeout(900)
def test_jupyterlab_runs_a_kernel_for_its_person(own_house: House):
    folder = KEPT / "jupyter"
    if not (folder / "bin" / "jupyter-lab").exists():
        done = run_installer([sys.executable, "-m", "venv", str(folder)])
        done = done if done.returncode else run_installer([f"{folder}/bin/pip", "install", "-q", "jupyterlab"])
        if done.returncode:
            pytest.skip(f"pip install jupyterlab failed: {done.stderr[-200:]}")
    path = f"{{PATH: '{folder}/bin:{os.environ['PATH']}'}}"
    there = running(own_house, services="\n  lab: {type: jupyter_lab}", environment_variables=path)
    there.until_up("lab")
    browser = there.open("lab")
    until(lambda: browser.get("/api/status").status_code == 200, 120, "JupyterLab")
    assert "jupyter" in browser.get("/lab").text.lower()
    kernel = browser.post("/api/kernels", json={"name": "python3"}, headers=_xsrf(browser)).json()
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    origin = str(browser.base_url)
    address = f"{origin.replace('http', 'ws')}/api/kernels/{kernel['id']}/channels"
    with websocket.connect(address, additional_headers={"Cookie": cookie}, origin=origin, proxy=None) as line:
        line.send(json.dumps(_execute("print(6 * 7)")))
        assert "42\n" in _stdout(line)


def _xsrf(browser: httpx.Client) -> dict[str, str]:
    return {"X-XSRFToken": browser.cookies.get("_xsrf", "")}


def _execute(code: str) -> dict[str, object]:
    header = {
        "msg_id": "1",
        "msg_type": "execute_request",
        "username": "",
        "session": "s",
        "date": "",
        "version": "5.3",
    }
    content = {"code": code, "silent": False}
    return {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}


def _stdout(line: websocket.ClientConnection) -> str:
    while True:
        message = json.loads(line.recv(timeout=120))
        if message["msg_type"] == "stream":
            return str(message["content"]["text"])


@pytest.mark.thorough
@pytest.mark.feature("M7", "M10")
def test_services_and_sessions_end_with_their_job(two_ranks: Running):
    """The last test of the file: it ends the job that they share."""
    there, house = two_ranks, two_ranks.house
    there.until_up("echo")
    browser = there.open("echo")
    origin = str(browser.base_url)
    (name, value), *_ = browser.cookies.items()
    address, cookie = f"{origin.replace('http', 'ws')}/", {"Cookie": f"{name}={value}"}
    command = [DRUMBEAT, "exec", there.job, "--", "sleep", "599"]
    with (
        websocket.connect(address, additional_headers=cookie, origin=origin, proxy=None) as line,
        subprocess.Popen(command, env=house.environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as session,
    ):
        until(lambda: any(line_of(one) == "sleep 599" for one in house.processes()), 60, "the command")
        house.client.cancel(there.job)
        ended = house.client.wait(there.job, 60)
        assert ended is not None
        assert ended.state == "canceled"
        with pytest.raises(ConnectionClosed):
            line.recv(timeout=30)
        _, said = session.communicate(timeout=60)
        assert session.returncode, said
    until(lambda: not _answers(origin), 60, "the end of the port")
    with pytest.raises(ConflictError, match="has ended"):
        house.client.service_link(there.job, "echo")


def _answers(origin: str) -> bool:
    try:
        httpx.get(origin, trust_env=False)
    except httpx.TransportError:
        return False
    return True
