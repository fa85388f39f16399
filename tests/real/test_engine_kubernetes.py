"""The engine over a real Kubernetes with virtual nodes keeps its promises, with the roles of deploy/kubernetes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from drumbeat.core.lifecycle.events import Loss
from drumbeat.engines.contract import EngineContract, a_gang, stop
from drumbeat.jobfile.compute.kubernetes import KubernetesCompute
from drumbeat.model.errors import EngineError, UnreachableError
from drumbeat.ports.engines import Engine, Gang, GangStatus
from tools.kubelab import binaries
from tools.kubelab.lab import GRACE_S, NAMESPACE, USER, KubeLab, kube_lab, until

from .guard import guarded

pytestmark = [pytest.mark.feature("C4")]

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
SCHEDULING = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[KubeLab]:
    is_thorough = any(item.get_closest_marker("thorough") for item in request.session.items)
    programs = binaries.built() if is_thorough else binaries.missing() or binaries.folder()
    if isinstance(programs, str):
        pytest.skip(programs)
    pytest.importorskip("lightkube", reason="needs lightkube: pip install 'drumbeat[kubernetes]'")
    folder = tmp_path_factory.mktemp("kube")
    with guarded(folder), kube_lab(folder, "kl", 3, programs) as lab:
        yield lab


@pytest.fixture
def lab(made: KubeLab) -> Iterator[KubeLab]:
    yield made
    if len(made.ready()) < made.count:
        made.mend()


def spec(lab: KubeLab, **keys: Any) -> KubernetesCompute:
    own = {
        "name": "rack", "type": "kubernetes", "kubeconfig": str(lab.kubeconfig(USER)), "image": "none",
        "python": os.sys.executable, "server_address": "127.0.0.1",
    }  # fmt: skip
    return KubernetesCompute.model_validate({**own, **keys})


Make = Callable[..., Any]


@pytest.fixture
def make(lab: KubeLab) -> Iterator[Make]:
    from drumbeat.engines.kubernetes.engine import connected_engine

    engines: list[Any] = []

    def make(mark: str = "ab12cd", **keys: Any) -> Engine:
        engine = connected_engine(spec(lab, **keys), mark)
        engine.leave_s, engine.node_grace_s, engine.nodes_s, engine.poller.busy_s = 0.1, GRACE_S / 4, 1.0, 0.5
        engines.append(engine)
        return engine

    yield make
    for engine in engines:
        engine.close()


def seen(engine: Engine, gang: Gang, holds: Callable[[GangStatus], object]) -> GangStatus:
    deadline = time.monotonic() + 120
    while not holds(sighting := engine.observe(gang)):
        assert time.monotonic() < deadline, sighting
        time.sleep(0.05)
    return sighting


def is_running(sighting: GangStatus) -> bool:
    return sighting.word == "Running"


@pytest.mark.thorough
class TestContract(EngineContract):
    @pytest.fixture
    def engine(self, make: Make) -> Engine:
        return make()

    @pytest.fixture
    def lose(self, lab: KubeLab) -> Callable[[Gang, int], None]:
        def lose(gang: Gang, node: int) -> None:
            del gang
            places: list[str] = []

            def is_placed() -> bool:
                places[:] = [
                    one["spec"].get("nodeName", "")
                    for one in lab.pods()
                    if one["metadata"]["labels"]["drumbeat/node"] == str(node)
                ]
                return bool(places and places[0])

            until(is_placed, "the pod has a machine")
            lab.silence(places[0])

        return lose


def test_gang_runs_with_the_permissions_of_the_file_and_leaves_nothing(make: Make, lab: KubeLab):
    """The witness: everything else of the real cluster is in `make thorough`."""
    engine, gang = make(), a_gang(nodes=2)
    try:
        engine.start(gang)
        seen(engine, gang, is_running)
        places = {one["spec"]["nodeName"] for one in lab.pods()}
        assert len(places) == 2, "each node of a gang has a machine of its own"
    finally:
        stop(engine, gang.name)
    assert lab.pods() == []
    _, secrets = lab.call("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets")
    assert not [one for one in secrets["items"] if "drumbeat/owner" in (one["metadata"].get("labels") or {})]


@pytest.mark.thorough
def test_preempted_gang_is_preempted_by_the_words_of_the_cluster(make: Make, lab: KubeLab):
    for name, value in (("low", 1), ("high", 1000)):
        lab.call("POST", SCHEDULING, {"metadata": {"name": name}, "value": value})
    engine, gang = make(cpus_per_node=4, priority_class="low"), a_gang(nodes=3)
    rival = {
        "metadata": {"name": "rival"},
        "spec": {
            "priorityClassName": "high",
            "containers": [
                {"name": "c", "image": "none", "command": ["sleep", "60"], "resources": {"requests": {"cpu": "4"}}}
            ],
        },
    }
    try:
        engine.start(gang)
        seen(engine, gang, is_running)
        assert lab.call("POST", PODS, rival)[0] == 201
        sighting = seen(engine, gang, lambda sighting: sighting.gone)
        assert sighting.cause is Loss.PREEMPTED
        assert "was preempted by a pod with a higher priority" in next(iter(sighting.gone.values()))
    finally:
        lab.call("DELETE", f"{PODS}/rival")
        stop(engine, gang.name)


@pytest.mark.thorough
def test_gang_without_room_waits_with_the_schedulers_sentence(make: Make):
    engine, gang = make(cpus_per_node=400), a_gang(nodes=1)
    try:
        engine.start(gang)
        sighting = seen(engine, gang, lambda sighting: "Unschedulable" in sighting.word)
        assert "nodes are available: 3 Insufficient cpu" in sighting.word
        assert sighting.waits
    finally:
        stop(engine, gang.name)


@pytest.mark.thorough
def test_python_that_is_not_in_the_image_fails_with_the_message(make: Make):
    engine, gang = make(python="/no/python3"), a_gang(nodes=1)
    try:
        engine.start(gang)
        sighting = seen(engine, gang, lambda sighting: sighting.gone)
        assert sighting.cause is Loss.FAILED
        assert "could not start its agent" in sighting.gone[0]
    finally:
        stop(engine, gang.name)


@pytest.mark.thorough
def test_quota_of_a_real_namespace_is_waited_for(make: Make, lab: KubeLab):
    path = f"/api/v1/namespaces/{NAMESPACE}/resourcequotas"
    lab.call("POST", path, {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "1"}}})
    until(lambda: "used" in lab.call("GET", f"{path}/small")[1]["status"], "the quota counts")
    try:
        with pytest.raises(UnreachableError, match="the namespace's quota is used up"):
            make().start(a_gang(nodes=2))
        until(lambda: not lab.pods(), "no half gang is kept")
    finally:
        lab.call("DELETE", f"{path}/small")
        stop(make(), "contract.1")


@pytest.mark.thorough
def test_user_without_the_role_is_refused_with_the_file_that_helps(make: Make, lab: KubeLab):
    lab.call("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
    with pytest.raises(EngineError, match=r"(?s)is forbidden: User.*docs/kubernetes.md lists the permissions"):
        make(namespace="other").start(a_gang())


@pytest.mark.thorough
def test_api_server_that_was_away_loses_no_gang(make: Make, lab: KubeLab):
    engine, gang = make(), a_gang(nodes=2)
    try:
        engine.start(gang)
        seen(engine, gang, is_running)
        lab.stop_api()
        assert not seen(engine, gang, lambda sighting: "doesn't answer" in sighting.word).gone
        lab.start_api()
        assert not seen(engine, gang, is_running).gone
    finally:
        until(lambda: lab.call("GET", "/readyz")[0] == 200, "the API server is back")
        stop(engine, gang.name)
