"""What a user's program asks of the API about computes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.jobfile.compute.computes import Compute
from drumbeat.jobfile.compute.netlab import NetlabCompute
from drumbeat.model.api.computes import Machine
from drumbeat.model.errors import EngineError
from drumbeat.ports.engines import Engine
from drumbeat.server.control import Control, Setting
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.wiring import SystemClock
from tests.faces.api_house import House, eventually, served
from tests.support.fake_engine import FakeEngine
from tests.support.memory_store import MemoryStore

pytestmark = pytest.mark.feature("C1")

PATH = "/api/v1/computes"
LAB = {"name": "lab", "type": "netlab", "nodes": 2}


class Lab(FakeEngine):
    """Two nodes, the second of which is away."""

    def machines(self) -> list[Machine]:
        return [Machine("node-0", 2, word="up"), Machine("node-1", 2, word="down", unusable="its line is cut")]


def make(spec: Compute) -> Engine:
    if not isinstance(spec, NetlabCompute):
        raise EngineError("nothing is reached from here")
    return Lab(name="netlab")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    home = tmp_path_factory.mktemp("home")
    engine = FakeEngine(cpus=100)
    setting = Setting(
        MemoryStore(), FolderArtifacts(home), {"local": engine}, SystemClock(), b"k" * 32, make_engine=make
    )
    control = Control(setting)
    control.start()
    try:
        with (
            served(control, home) as room,
            House(home, engine, control, room, control.addresses.here[0]).connected() as there,
        ):
            yield there
    finally:
        control.stop()


@pytest.fixture(autouse=True)
def nothing_else(house: House) -> Iterator[None]:
    yield
    house.http.delete(f"{PATH}/lab")


def create(house: House, document: dict[str, object], source: str = "lab.yml"):
    return house.http.post(PATH, json={"document": document, "source": source})


def test_a_compute_is_made_looked_at_and_deleted(house: House):
    made = create(house, LAB)
    assert made.status_code == 201
    assert made.json() == house.http.get(f"{PATH}/lab").json()
    assert (made.json()["engine"], made.json()["spec"], made.json()["trouble"]) == ("netlab", LAB, "")
    assert [one["name"] for one in house.http.get(PATH).json()] == ["local", "lab"]
    assert house.http.delete(f"{PATH}/lab").status_code == 204
    for gone in (house.http.delete(f"{PATH}/lab"), house.http.get(f"{PATH}/lab")):
        assert (gone.status_code, gone.json()["code"]) == (404, "not_found")


def test_repeated_creation_succeeds(house: House):
    assert [create(house, LAB).status_code for _ in range(3)] == [201, 200, 200]


def test_machines_have_their_state(house: House):
    create(house, LAB)
    job = {"document": {"command": "true", "name": "held", "compute": "lab", "drumbeat": {"environment": "current"}}}
    assert house.http.post("/api/v1/jobs", json=job).status_code == 201
    machines = [(one["state"], one["word"], one["unusable"]) for one in create(house, LAB).json()["machines"]]
    assert machines[1] == ("unusable", "down", "its line is cut")
    eventually(lambda: house.http.get(f"{PATH}/lab").json()["machines"][0]["state"] == "running")
    for refused in (create(house, {**LAB, "nodes": 3}), house.http.delete(f"{PATH}/lab")):
        assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
        assert refused.json()["what"] == "compute lab is used by held"
    house.http.post("/api/v1/jobs/held/cancel")
    eventually(lambda: house.http.delete(f"{PATH}/lab").status_code == 204)


@pytest.mark.parametrize(
    ("document", "status", "says"),
    [
        ({"name": "lab", "type": "netlab", "nods": 2}, 422, "unknown key `nods`. Did you mean `nodes`?"),
        ({"name": "lab"}, 422, "the compute needs the key `type`"),
        ({"name": "local", "type": "netlab"}, 422, "built-in compute"),
        ({"name": "rack", "type": "ssh", "hosts": ["a"]}, 502, "nothing is reached from here"),
    ],
)
def test_invalid_compute_is_refused_and_not_stored(house: House, document: dict[str, object], status: int, says: str):
    answer = create(house, document)
    assert answer.status_code == status
    assert says in f"{answer.json()['what']}. {answer.json()['fix']}"
    assert [one["name"] for one in house.http.get(PATH).json()] == ["local"]


def test_built_in_compute_cannot_be_deleted(house: House):
    assert house.http.delete(f"{PATH}/local").json()["code"] == "conflict"


@pytest.mark.parametrize("name", ["%2e%2e", "a%2Fb", "x" * 101, "%00"])
def test_odd_names_are_no_computes(house: House, name: str):
    assert house.http.get(f"{PATH}/{name}").status_code in (404, 422)


def test_python_client_manages_computes(house: House, tmp_path: Path):
    from drumbeat.client import Client
    from drumbeat.model.errors import ConflictError, NotFoundError, SpecError

    file = tmp_path / "lab.yml"
    file.write_text("name: lab\ntype: netlab\n")
    with Client(url=house.url, token=house.http.headers["Authorization"].removeprefix("Bearer ")) as client:
        made = client.create_compute(file, sets=["nodes=3"])
        assert (made.spec, made.machines[1].state) == ({**LAB, "nodes": 3}, "unusable")
        assert client.create_compute({**LAB, "nodes": 3}) == client.compute("lab") == client.computes()[1]
        assert client.create_compute(NetlabCompute(name="lab")).spec == {"name": "lab", "type": "netlab"}
        client.delete_compute("lab")
        with pytest.raises(NotFoundError):
            client.compute("lab")
        with pytest.raises(ConflictError):
            client.delete_compute("local")
        file.write_text("name: lab\ntype: netlap\n")
        with pytest.raises(SpecError, match=r"lab\.yml:2:7"):
            client.create_compute(file)


def test_scale_changes_only_the_limits_of_a_compute(house: House):
    create(house, LAB)
    scaled = house.http.post(f"{PATH}/lab/scale", json={"max_instances": 1})
    assert (scaled.status_code, scaled.json()["spec"]) == (200, {**LAB, "max_instances": 1})
    assert house.http.post(f"{PATH}/lab/scale", json={"max_instances": 3}).json()["code"] == "bad_job"
    assert house.http.post(f"{PATH}/local/scale", json={"max_instances": 3}).json()["code"] == "refused"
    assert house.http.post(f"{PATH}/lab/scale", json={"most": 3}).status_code in (400, 422)


def test_machine_has_its_state_with_reason_and_time(house: House):
    create(house, LAB)
    idle, cut = house.http.get(f"{PATH}/lab").json()["machines"]
    assert (idle["state"], cut["state"], cut["why"]) == ("idle", "unusable", "its line is cut")
    assert idle["since"]
