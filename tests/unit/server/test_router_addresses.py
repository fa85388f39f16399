"""Where the router listens, as its table says: for clients, and for replicas on other machines."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import cast

import pytest

from drumbeat.model.errors import EngineError
from drumbeat.model.routing_table import NAME, RouterListener, RoutingTable, table_of
from drumbeat.ports.engines import AgentListeners
from drumbeat.server.endpoints.router_program import RouterProgram
from drumbeat.server.scoring_address import ScoringAddress


class Certificates:
    """As much of the listeners for agents as the router's program uses."""

    ca = "the authority"

    def __init__(self) -> None:
        self.problem = ""

    def keep_certificate(self, file: Path, names: Collection[str]) -> None:
        if self.problem:
            raise EngineError(self.problem)
        file.write_text(" ".join(sorted(names)))


def program(folder: Path, scoring: ScoringAddress | None = None) -> RouterProgram:
    return RouterProgram(folder, cast("AgentListeners", Certificates()), scoring)


def table(folder: Path) -> RoutingTable:
    return table_of((folder / NAME).read_text())


def doors(folder: Path) -> dict[str, int]:
    return {one.host: one.port for one in table(folder).listeners if one.for_replicas}


def test_doors_have_one_port_and_a_certificate_for_the_names_that_replicas_call(tmp_path: Path):
    router = program(tmp_path)
    router.write({})
    assert (len(table(tmp_path).listeners), table(tmp_path).certificate) == (1, "")
    router.open_doors({"train.example": ("10.0.0.1", "10.1.0.1"), "10.0.0.1": ("10.0.0.1",)}, is_complete=True)
    router.write({})
    assert doors(tmp_path) == {"10.0.0.1": router.replica_port, "10.1.0.1": router.replica_port}
    assert Path(table(tmp_path).certificate).read_text() == "10.0.0.1 10.1.0.1 train.example"
    names = ("10.0.0.1", "train.example")
    assert router.door_urls == tuple(f"https://{name}:{router.replica_port}" for name in names)


def test_doors_stay_open_over_a_restart_until_all_addresses_are_known(tmp_path: Path):
    before = program(tmp_path)
    before.open_doors({"10.0.0.1": ("10.0.0.1",)}, is_complete=True)
    after = program(tmp_path)
    assert after.replica_port == before.replica_port
    after.open_doors({"10.0.0.2": ("10.0.0.2",)}, is_complete=False)
    after.write({})
    assert set(doors(tmp_path)) == {"10.0.0.1", "10.0.0.2"}
    after.open_doors({"10.0.0.2": ("10.0.0.2",)}, is_complete=True)
    after.write({})
    assert set(doors(tmp_path)) == {"10.0.0.2"}


@pytest.mark.parametrize("files", [("", ""), ("/etc/cert.pem", "/etc/key.pem")])
def test_clients_of_other_machines_have_an_address_with_its_certificate(tmp_path: Path, files: tuple[str, str]):
    router = program(tmp_path, ScoringAddress("0.0.0.0", 8443, ("train.example", "127.0.0.1"), *files))
    router.write({})
    assert (router.url, router.scoring_url) == ("https://train.example:8443/endpoints", "https://train.example:8443")
    assert router.ca == ("" if files[0] else "the authority")
    local, front = table(tmp_path).listeners
    assert local == RouterListener("127.0.0.1", router.port)
    assert front == RouterListener("0.0.0.0", 8443, has_tls=True, certificate=files[0], key=files[1])
    assert (tmp_path / "certificate.pem").exists() == (not files[0])


def test_table_is_written_without_a_certificate_when_the_authority_is_damaged(tmp_path: Path):
    certificates = Certificates()
    certificates.problem = "the authority is damaged"
    router = RouterProgram(tmp_path, cast("AgentListeners", certificates))
    router.open_doors({"10.0.0.1": ("10.0.0.1",)}, is_complete=True)
    router.write({})
    assert set(doors(tmp_path)) == {"10.0.0.1"}
    assert not (tmp_path / "certificate.pem").exists()


def test_door_that_is_not_open_is_named(tmp_path: Path):
    router = program(tmp_path)
    assert router.problem(None) == "the router is being started"
    assert not router.door_problem(None)
    router.open_doors({"10.0.0.1": ("10.0.0.1", "10.1.0.1")}, is_complete=True)
    bound = {"a": f"127.0.0.1:{router.port}", "b": f"10.0.0.1:{router.replica_port}"}
    numbers = {"listeners": bound}
    assert not router.problem(numbers)
    closed = f"replicas can't dial the router at 10.1.0.1:{router.replica_port}, where"
    assert router.door_problem(numbers).startswith(closed)
    bound["c"] = f"10.1.0.1:{router.replica_port}"
    assert not router.door_problem(numbers)
