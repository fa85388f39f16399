"""A real Kubernetes with real nodes: kubelets and containerds on the nodes of a lab, with images, limits and networks.

    with real_kube_lab(folder, "lab", nodes=2, programs=binaries.built()) as lab:   # as root
        lab.volumes()   # of a compute: this machine's programs in pods, whose image is empty

Pods have addresses in networks of their nodes' own, with routes between them and from this machine; there is no address
translation, no DNS and no kube-proxy. The image IMAGE has nothing but /pause and a /tmp. It needs cgroups v1.
Everything runs in the nodes' namespaces, and ends with the lab.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drumbeat.engines.netlab.lab import Lab, require_tools
from drumbeat.model.errors import EngineError
from tools.kept_folder import KEPT
from tools.kubelab.lab import KubeLab

IMAGE = "docker.io/lab/base:1"
CGROUPS = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "systemd")
HOST_PATHS = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/opt", "/etc")
END_S = 20.0


def missing() -> str:
    """What is missing for it on this machine, "" = nothing."""
    try:
        require_tools()
    except EngineError as error:
        return str(error)
    lacking = [name for name in CONTROLLERS if not (CGROUPS / name).is_dir()]
    return f"real kubelets need cgroups v1 here, without {', '.join(lacking)}" if lacking else ""


@dataclass
class RealKubeLab(KubeLab):
    """The control plane runs on the first node. lab: its nodes."""

    lab: Lab = field(init=False)

    @property
    def address(self) -> str:
        """Where the API server listens: on the first node."""
        return self.addresses[0]

    @property
    def addresses(self) -> list[str]:
        """Those of its nodes, in their order."""
        return [node["address"] for node in self.lab.blueprint()["nodes"]]

    def inside(self, command: list[str]) -> list[str]:
        """The command, on the first node."""
        return self.lab.inside(self.nodes[0], command)

    @property
    def api_options(self) -> list[str]:
        """How the API server speaks with kubelets."""
        keys = self.folder / "keys"
        return [
            "--kubelet-preferred-address-types=InternalIP", f"--kubelet-certificate-authority={keys}/ca.crt",
            f"--kubelet-client-certificate={keys}/api.crt", f"--kubelet-client-key={keys}/api.key",
        ]  # fmt: skip

    def up(self) -> None:
        """Starts it, and returns when all nodes are ready."""
        self.lab = Lab(self.folder / "lab", self.name, self.count)
        self.lab.up()
        super().up()

    def close(self) -> None:
        """Ends it with all pods, and takes its nodes away."""
        for one in reversed(list(self.processes.values())):
            one.kill()
            one.wait()
        if hasattr(self, "lab"):
            self.lab.close()
        for name in self.nodes:
            _remove_cgroups(name)

    def volumes(self, *more: str) -> list[dict[str, Any]]:
        """A compute's volumes that put this machine's programs into pods. more: further folders, writable."""
        listed = [(path, path in more) for path in (*HOST_PATHS, *_own_folders()) if Path(path).is_dir()]
        listed += [(path, True) for path in more if path not in dict(listed)]
        return [
            {
                "name": f"host-{number}",
                "mount_path": path,
                "writable": writable,
                "source": {"hostPath": {"path": str(Path(path).resolve())}},
            }
            for number, (path, writable) in enumerate(listed)
        ]

    # --- nodes ------------------------------------------------------------------------------------------------
    def start_node(self, name: str) -> None:
        """Starts the containerd and the kubelet of a node."""
        own = self.folder / "run" / name
        for part in ("kubelet", "libcni", "cni", "volplugins", "varlog/pods", "varlog/containers", "certs"):
            (own / part).mkdir(parents=True, exist_ok=True)
        number = self.nodes.index(name)
        (own / "resolv.conf").write_text("")
        (own / "cni" / "10-lab.conflist").write_text(json.dumps(_network(self._pod_network(number), own)))
        (own / "containerd.toml").write_text(CONTAINERD.format(own=own, programs=self.programs, image=IMAGE))
        (own / "kubelet.json").write_text(json.dumps(_kubelet(self.folder / "keys", own, name)))
        (own / "start.sh").write_text(self._script(name, number, own))
        subprocess.run(["ip", "route", "replace", self._pod_network(number), "via", self.addresses[number]], check=True)
        environment = {"PATH": f"{self.programs}:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.folder)}
        self._spawn(name, self.lab.inside(name, ["bash", str(own / "start.sh")]), environment)

    def _pod_network(self, number: int) -> str:
        third = int(hashlib.sha256(str(self.folder).encode()).hexdigest()[:4], 16) % 50
        return f"10.{200 + third}.{number}.0/24"

    def _script(self, name: str, number: int, own: Path) -> str:
        routes = "".join(
            f"ip route replace {self._pod_network(other)} via {address}\n"
            for other, address in enumerate(self.addresses)
            if other != number
        )
        socket = f"unix://{own}/containerd.sock"
        return SCRIPT.format(
            own=own, name=name, routes=routes, gateway=self._pod_network(number).replace(".0/24", ".1/24"),
            controllers=" ".join(CONTROLLERS), cgroups=CGROUPS, log=self.folder / "log" / f"containerd-{name}.log",
            image=self._image(), keys=self.folder / "keys", address=self.addresses[number], socket=socket,
        )  # fmt: skip

    def _image(self) -> Path:
        """The image as a docker archive."""
        place = self.folder / "base.tar"
        if not place.exists():
            place.write_bytes(_archive(_layer(self.programs / "pause")))
        return place


CONTAINERD = """\
version = 2
root = "{own}/containerd"
state = "{own}/state"
disabled_plugins = [
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.internal.v1.opt",
]
[grpc]
  address = "{own}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{image}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{programs}/cni"
    conf_dir = "{own}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{programs}/runc"
"""

SCRIPT = """\
set -e
mount --make-rshared /
mount -t tmpfs run /run
mkdir -p /run/netns /var/lib/cni /var/log/pods /var/log/containers /var/lib/kubelet
mount --bind {own}/libcni /var/lib/cni
mount --bind {own}/varlog/pods /var/log/pods
mount --bind {own}/varlog/containers /var/log/containers
mount --bind {own}/kubelet /var/lib/kubelet
ip link add pods0 type bridge
ip addr add {gateway} dev pods0
ip link set pods0 up
sysctl -qw net.ipv4.ip_forward=1
{routes}for c in {controllers}; do mkdir -p {cgroups}/$c/{name}; done
for file in cpuset.cpus cpuset.mems; do cat {cgroups}/cpuset/$file > {cgroups}/cpuset/{name}/$file; done
containerd --config {own}/containerd.toml > {log} 2>&1 &
until ctr -a {own}/containerd.sock version > /dev/null 2>&1; do sleep 0.1; done
ctr -a {own}/containerd.sock -n k8s.io images import {image} > /dev/null
exec kubelet --config={own}/kubelet.json --kubeconfig={keys}/system:node:{name}.kubeconfig \\
  --root-dir=/var/lib/kubelet \\
  --hostname-override={name} --node-ip={address} --cert-dir={own}/certs --v=2 --containerd={own}/containerd.sock \\
  --container-runtime=remote --container-runtime-endpoint={socket} --image-service-endpoint={socket}
"""


def _network(pods: str, own: Path) -> dict[str, object]:
    ipam = {
        "type": "host-local",
        "dataDir": str(own / "cnidata"),
        "ranges": [[{"subnet": pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": "pods0", "isGateway": True, "ipMasq": False, "ipam": ipam}
    return {"cniVersion": "0.4.0", "name": "lab", "plugins": [bridge]}


def _kubelet(keys: Path, own: Path, name: str) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "0.0.0.0",  # noqa: S104 - of the node
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "tlsCertFile": f"{keys}/api.crt",
        "tlsPrivateKeyFile": f"{keys}/api.key",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{name}",
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "resolvConf": f"{own}/resolv.conf",
        "nodeStatusUpdateFrequency": "2s",
        "syncFrequency": "5s",
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "volumePluginDir": f"{own}/volplugins",
    }


def _own_folders() -> list[str]:
    """Where this interpreter, this checkout with its environment, and kept programs lie, if not in HOST_PATHS."""
    folders = {Path(sys.base_prefix).resolve(), Path(__file__).parents[2].resolve(), KEPT}
    return sorted(str(one) for one in folders if not str(one).startswith(tuple(f"{path}/" for path in HOST_PATHS)))


def _layer(pause: Path) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for path in ("tmp", "var/tmp"):
            entry = tarfile.TarInfo(path)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
            tar.addfile(entry)
        tar.add(pause, "pause")
    return made.getvalue()


def _archive(layer: bytes) -> bytes:
    digest = hashlib.sha256(layer).hexdigest()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Cmd": ["/pause"], "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps([{"Config": name, "RepoTags": [IMAGE], "Layers": [f"{digest}/layer.tar"]}]).encode()
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for path, content in ((name, config), (f"{digest}/layer.tar", layer), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def _remove_cgroups(name: str) -> None:
    """Its processes end with the node's namespaces; groups can be removed when they are empty."""
    deadline = time.monotonic() + END_S
    while left := [one for top in CGROUPS.iterdir() for one in _groups(top / name)]:
        for one in left:
            with contextlib.suppress(OSError):
                one.rmdir()
        if time.monotonic() > deadline:
            return
        time.sleep(0.1)


def _groups(top: Path) -> list[Path]:
    return [*sorted((one for one in top.rglob("*") if one.is_dir()), reverse=True), top] if top.is_dir() else []


@contextlib.contextmanager
def real_kube_lab(folder: Path, name: str, nodes: int, programs: Path) -> Generator[RealKubeLab]:
    """A cluster, taken away afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    lab = RealKubeLab(folder, name, nodes, programs)
    try:
        lab.up()
        yield lab
    finally:
        lab.close()
