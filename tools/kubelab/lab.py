"""A real Kubernetes on loopback for tests and demos: etcd, API server, controllers, scheduler, and virtual nodes.

    with kube_lab(folder, "lab", nodes=2, programs=binaries.built()) as lab:
        lab.kubeconfig("drumbeat")       # of a user with the permissions in deploy/kubernetes, and no other
        lab.call("GET", "/api/v1/nodes") # as the cluster's administrator

Pods are processes of this machine, run by `virtual_kubelet`; no root is needed. There are no images, limits, DNS or
networks.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from ruamel.yaml import YAML

ROLES = Path(__file__).parents[2] / "deploy" / "kubernetes" / "roles"
NAMESPACE = "training"
USER = "drumbeat"
GRACE_S = 8
"""The node controller's grace period."""
UP_S = 400.0
"""How long a part may take to be ready on a machine that has other work."""
_DIE_WITH_PARENT = 1


def until(holds: Callable[[], object], what: str, within_s: float = 60.0, every_s: float = 0.1) -> None:
    """Waits until something holds."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, f"it took too long until {what}"
        time.sleep(every_s)


@dataclass
class KubeLab:
    """A cluster. programs: the folder that `binaries` gives."""

    folder: Path
    name: str
    count: int
    programs: Path
    ports: dict[str, int] = field(default_factory=dict[str, int])
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict[str, "subprocess.Popen[bytes]"])

    @property
    def nodes(self) -> list[str]:
        """Their names."""
        return [f"{self.name}-{number}" for number in range(1, self.count + 1)]

    @property
    def address(self) -> str:
        """Where the API server listens."""
        return "127.0.0.1"

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return f"https://{self.address}:{self.ports['api']}"

    def kubeconfig(self, user: str = "admin") -> Path:
        """The file of a user: `admin`, or `drumbeat` with the permissions that drumbeat needs."""
        return self._keys / f"{user}.kubeconfig"

    @property
    def _keys(self) -> Path:
        return self.folder / "keys"

    @property
    def addresses(self) -> list[str]:
        """Addresses of its nodes, for its certificate."""
        return [self.address]

    # --- life -------------------------------------------------------------------------------------------------
    def up(self) -> None:
        """Starts it, and returns when all nodes are ready."""
        for part in ("keys", "log", "run"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        self.ports = {what: _free_port() for what in ("etcd", "peer", "api", "controllers", "scheduler")}
        self._make_keys()
        self._start_etcd()
        self.start_api()
        until(lambda: self.call("GET", "/readyz")[1] == "ok", "the API server is ready", UP_S)
        self._start_controllers()
        for name in self.nodes:
            self.start_node(name)
        accounts = "/api/v1/namespaces/default/serviceaccounts/default"
        until(lambda: self.call("GET", accounts)[0] == 200, "namespaces have accounts", UP_S)
        until(lambda: len(self.ready()) == self.count, "all nodes are ready", UP_S)
        self._admit_user()

    def close(self) -> None:
        """Ends it with all pods."""
        nodes = [self.processes[name] for name in self.nodes if name in self.processes]
        for one in nodes:
            one.terminate()
        for one in nodes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.wait(10)
        for one in reversed(list(self.processes.values())):
            one.kill()
            one.wait()

    def silence(self, node: str) -> None:
        """Its kubelet reports no more; its pods go on, as on a machine that is cut off."""
        self.processes[node].send_signal(signal.SIGUSR1)

    def mend(self) -> None:
        """Replaces the kubelets that were silenced, and waits until all nodes are ready."""
        for name in self.nodes:
            self.processes[name].terminate()
            self.processes[name].wait(10)
            self.start_node(name)
        until(lambda: len(self.ready()) == self.count, "all nodes are ready", UP_S)

    def _start_etcd(self) -> None:
        etcd, peer = (f"http://127.0.0.1:{self.ports[what]}" for what in ("etcd", "peer"))
        self._start(
            "etcd", "etcd", f"--data-dir={self.folder}/etcd", f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}", f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}", "--unsafe-no-fsync",
        )  # fmt: skip

    def start_api(self) -> None:
        """Starts the API server."""
        keys = self._keys
        self._start(
            "api", "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{self.ports['etcd']}",
            f"--bind-address={self.address}",
            # Any address but loopback; nothing in the lab uses it.
            "--advertise-address=10.255.255.1", f"--secure-port={self.ports['api']}", "--insecure-port=0",
            "--endpoint-reconciler-type=none", f"--tls-cert-file={keys}/api.crt",
            f"--tls-private-key-file={keys}/api.key",
            f"--client-ca-file={keys}/ca.crt", f"--token-auth-file={keys}/tokens.csv",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={keys}/accounts.key",
            f"--service-account-signing-key-file={keys}/accounts.key", "--service-cluster-ip-range=10.254.0.0/24",
            "--authorization-mode=Node,RBAC", "--allow-privileged=true", f"--cert-dir={self.folder}/run",
            *self.api_options,
        )  # fmt: skip

    @property
    def api_options(self) -> list[str]:
        """Additional options of the API server."""
        return []

    def stop_api(self) -> None:
        """Ends the API server; everything else goes on."""
        self.processes["api"].kill()
        self.processes["api"].wait()

    def _start_controllers(self) -> None:
        keys = self._keys
        self._start(
            "controllers", "kube-controller-manager", f"--kubeconfig={keys}/controllers.kubeconfig",
            "--leader-elect=false", f"--secure-port={self.ports['controllers']}",
            "--bind-address=127.0.0.1", "--port=0",
            f"--cert-dir={self.folder}/run", f"--service-account-private-key-file={keys}/accounts.key",
            f"--root-ca-file={keys}/ca.crt", f"--node-monitor-grace-period={GRACE_S}s", "--node-monitor-period=1s",
            "--node-eviction-rate=10",
        )  # fmt: skip
        self._start(
            "scheduler", "kube-scheduler", f"--kubeconfig={keys}/scheduler.kubeconfig", "--leader-elect=false",
            f"--secure-port={self.ports['scheduler']}", "--bind-address=127.0.0.1", "--port=0",
            f"--cert-dir={self.folder}/run",
        )  # fmt: skip

    def start_node(self, name: str) -> None:
        """Starts the virtual kubelet of a node."""
        kubelet, place = Path(__file__).with_name("virtual_kubelet.py"), self.folder / "run" / name
        command = [sys.executable, str(kubelet), name, self.server, self._token(), str(self._keys), str(place)]
        self._spawn(name, command, dict(os.environ))

    def _start(self, what: str, program: str, *options: str) -> None:
        environment = {"PATH": f"{self.programs}:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.folder)}
        self._spawn(what, self.inside([str(self.programs / program), *options]), environment)

    def inside(self, command: list[str]) -> list[str]:
        """The command, where the control plane runs: on this machine."""
        return command

    def _spawn(self, what: str, command: list[str], environment: Mapping[str, str]) -> None:
        prctl = ctypes.CDLL(None).prctl
        with (self.folder / "log" / f"{what}.log").open("ab") as log:
            self.processes[what] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd="/",
                # A system call and nothing else: no lock of another thread is needed for it.
                preexec_fn=lambda: prctl(_DIE_WITH_PARENT, signal.SIGKILL),  # noqa: PLW1509
            )

    # --- use --------------------------------------------------------------------------------------------------
    def call(self, method: str, path: str, body: object = None, *, kind: str = "application/json") -> tuple[int, Any]:
        """The status and the answer, as the administrator; 0 = the API server doesn't answer."""
        content = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.server + path, content)  # noqa: S310 - the lab's own URL
        request.method = method
        request.add_header("Authorization", f"Bearer {self._token()}")
        request.add_header("Content-Type", kind)
        context = ssl.create_default_context(cafile=str(self._keys / "ca.crt"))
        try:
            with urllib.request.urlopen(request, timeout=10, context=context) as answer:  # noqa: S310
                return answer.status, _understood(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, _understood(error.read())
        except OSError as error:
            return 0, str(error)

    def ready(self) -> list[str]:
        """The nodes that are."""
        _, answer = self.call("GET", "/api/v1/nodes")
        if not isinstance(answer, dict):
            return []
        nodes = cast("list[dict[str, Any]]", answer["items"])
        return [one["metadata"]["name"] for one in nodes if _is_ready(one)]

    def pods(self) -> list[dict[str, Any]]:
        """Those in drumbeat's namespace."""
        return self.call("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")[1]["items"]

    def _admit_user(self) -> None:
        """Makes the namespace, and gives drumbeat's user exactly the roles of deploy/kubernetes."""
        self._make("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        user = {"kind": "User", "name": USER, "apiGroup": "rbac.authorization.k8s.io"}
        for file, place, kind in (
            ("role.yml", f"{rbac}/namespaces/{NAMESPACE}", "Role"),
            ("nodes-role.yml", rbac, "ClusterRole"),
        ):
            role: dict[str, Any] = _loaded(ROLES / file)
            name = role["metadata"]["name"]
            reference = {"kind": kind, "name": name, "apiGroup": "rbac.authorization.k8s.io"}
            self._make(f"{place}/{kind.lower()}s", role)
            binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [user]}
            self._make(f"{place}/{kind.lower()}bindings", binding)
        account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
        until(lambda: self.call("GET", account)[0] == 200, "the namespace has an account", UP_S)

    def _make(self, path: str, body: object) -> None:
        status, answer = self.call("POST", path, body)
        assert status == 201, answer

    # --- keys -------------------------------------------------------------------------------------------------
    def _token(self, user: str = "admin") -> str:
        return (self._keys / f"{user}.token").read_text()

    def _make_keys(self) -> None:
        def openssl(*words: str) -> None:
            subprocess.run(["openssl", *words], cwd=self._keys, check=True, capture_output=True)

        addresses = ",".join(f"IP:{one}" for one in sorted({"127.0.0.1", "10.254.0.1", *self.addresses}))
        names = f"DNS:localhost,DNS:kubernetes.default.svc,{addresses}"
        extensions = (
            f"[v3]\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth,clientAuth\nsubjectAltName={names}\n"
        )
        (self._keys / "extensions").write_text(extensions)
        for key in ("ca", "api"):
            openssl("ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", f"{key}.key")
        openssl("req", "-x509", "-new", "-key", "ca.key", "-days", "30", "-subj", "/CN=lab", "-out", "ca.crt")
        openssl("req", "-new", "-key", "api.key", "-subj", "/O=system:masters/CN=kube-apiserver", "-out", "api.csr")
        openssl(
            "x509", "-req", "-in", "api.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30",
            "-extfile", "extensions", "-extensions", "v3", "-out", "api.crt",
        )  # fmt: skip
        openssl("genrsa", "-out", "accounts.key", "2048")
        groups = {
            "admin": "system:masters",
            "controllers": "system:masters",
            "scheduler": "system:masters",
            USER: "people",
            **{f"system:node:{name}": "system:nodes" for name in self.nodes},
        }
        lines = [self._make_user(name, group) for name, group in groups.items()]
        (self._keys / "tokens.csv").write_text("".join(lines))

    def _make_user(self, name: str, group: str) -> str:
        token = secrets.token_hex(16)
        (self._keys / f"{name}.token").write_text(token)
        cluster = {"server": self.server, "certificate-authority": str(self._keys / "ca.crt")}
        context = {"cluster": "lab", "user": name, "namespace": NAMESPACE}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "lab",
            "clusters": [{"name": "lab", "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "lab", "context": context}],
        }
        self.kubeconfig(name).write_text(json.dumps(config))
        return f'{token},{name},{name},"{group}"\n'


def _loaded(file: Path) -> dict[str, Any]:
    yaml: Any = YAML(typ="safe")
    return yaml.load(file)


def _understood(content: bytes) -> Any:
    return json.loads(content) if content[:1] == b"{" else content.decode()


def _is_ready(node: Mapping[str, Any]) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"].get("conditions", ()))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def kube_lab(folder: Path, name: str, nodes: int, programs: Path) -> Generator[KubeLab]:
    """A cluster, taken away afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    lab = KubeLab(folder, name, nodes, programs)
    try:
        lab.up()
        yield lab
    finally:
        lab.close()
