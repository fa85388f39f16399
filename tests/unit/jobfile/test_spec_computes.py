"""Describing a compute: what comes out of its file, and where each message points."""

from pathlib import Path

import pytest

from drumbeat.jobfile import NetlabCompute, SlurmCompute, SshCompute, compute_from, load_compute
from drumbeat.jobfile.reading.writer import to_dict
from drumbeat.model.errors import SpecError

pytestmark = pytest.mark.feature("C1")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "compute.yml"


def problems(file: Path, text: str, *sets: str) -> list[str]:
    file.write_text(text)
    with pytest.raises(SpecError) as caught:
        load_compute(file, sets)
    return [str(one).replace(f"{file}:", "") for one in caught.value.fields]


def test_a_netlab_has_defaults(file: Path):
    file.write_text("$schema: https://x\nname: lab\ntype: Netlab\ntags: {v: 3.10}\n")
    lab = load_compute(file)
    assert isinstance(lab, NetlabCompute)
    assert (lab.nodes, lab.cpus, lab.bandwidth, lab.subnet, lab.allow_public) == (2, None, None, None, False)
    assert to_dict(lab) == {"name": "lab", "type": "netlab", "tags": {"v": "3.10"}}


@pytest.mark.parametrize(("written", "read"), [("200 Mbit", "200mbit"), ("1gbit", "1gbit"), ("9600bit", "9600bit")])
def test_bandwidth_is_read_as_people_write_it(written: str, read: str):
    lab = compute_from({"name": "lab", "type": "netlab", "bandwidth": written})
    assert getattr(lab, "bandwidth", None) == read


def test_values_can_be_set_from_outside(file: Path):
    file.write_text("name: lab\ntype: netlab\n")
    lab = load_compute(file, ["nodes=3", "bandwidth=1gbit"])
    assert (getattr(lab, "nodes", 0), getattr(lab, "bandwidth", "")) == (3, "1gbit")
    assert problems(file, "name: lab\ntype: netlab\n", "nodes=0") == [
        "--set nodes: `nodes`: must be at least 1, got the number 0"
    ]


def test_a_plain_host_is_its_address_and_its_name(file: Path):
    file.write_text("name: rack\ntype: ssh\nhosts:\n- gpu-1\n- {address: 10.0.0.2, name: two, gpus: [0, 1]}\n")
    rack = load_compute(file)
    assert isinstance(rack, SshCompute)
    assert [(host.address, host.title, host.gpus) for host in rack.hosts] == [
        ("gpu-1", "gpu-1", None),
        ("10.0.0.2", "two", ["0", "1"]),
    ]
    assert (rack.port, rack.python, rack.folder) == (None, "python3", "~/.drumbeat/node")


def test_a_key_beside_the_file_is_found_from_everywhere(file: Path):
    text = "name: rack\ntype: ssh\nhosts: [a]\nidentity_file: "
    for written, read in (("keys/id", f"{file.parent}/keys/id"), ("~/.ssh/id", "~/.ssh/id"), ("/k", "/k")):
        file.write_text(f"{text}{written}\n")
        assert getattr(load_compute(file), "identity_file", "") == read


@pytest.mark.parametrize("limit", ["90", "01:30:00", "2-00:00:00"])
def test_a_time_limit_is_minutes_or_slurms_own(file: Path, limit: str):
    file.write_text(f"name: cluster\ntype: slurm\nfolder: /shared\ntime_limit: {limit}\n")
    cluster = load_compute(file)
    assert isinstance(cluster, SlurmCompute)
    assert cluster.time_limit == limit


def test_ranks_elsewhere_have_programs_of_their_own_or_none():
    here = compute_from({"name": "lab", "type": "netlab"})
    there = {"name": "rack", "type": "ssh", "hosts": ["a"]}
    assert here.path_first("/venv/bin") == "/venv/bin"
    assert compute_from(there).path_first("/venv/bin") == ""
    assert compute_from({**there, "programs": "/opt/bin"}).path_first("/venv/bin") == "/opt/bin"


NETLAB = "name: lab\ntype: netlab\n"
SSH = "name: rack\ntype: ssh\nhosts: "
SLURM = "name: cluster\ntype: slurm\nfolder: /shared\n"
KUBERNETES = "name: k\ntype: kubernetes\n"
RAY = "name: r\ntype: ray\naddress: http://head:8265\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "name: lab\n",
            "1:1: the compute needs the key `type`. It is `netlab`, `ssh`, `slurm`, `kubernetes` or `ray`.",
        ),
        (
            "name: x\ntype: amlcompute\n",
            "2:7: `type`: `amlcompute` is made of machines in Azure, and drumbeat runs jobs on",
        ),
        ("name: x\ntype: netlap\n", "Did you mean `netlab`?"),
        ("type: netlab\n", "1:1: the compute needs the key `name`"),
        ("name: Local\ntype: netlab\n", "1:7: `name`: `Local` is the built-in compute: this machine"),
        (f"name: {'x' * 33}\ntype: netlab\n", "letters, digits, `-` and `_`, at most 32"),
        (NETLAB + "bandwith: 1gbit\n", "3:1: unknown key `bandwith`. Did you mean `bandwidth`?"),
        (NETLAB + "bandwidth: 200\n", "3:12: `bandwidth`: expected bits per second, like `200mbit` or `1gbit`"),
        (NETLAB + "bandwidth: 0mbit\n", "like `200mbit`"),
        (NETLAB + "subnet: 10.0.0.1/24\n", "isn't an IPv4 network. Write one like `10.77.0.0/24`."),
        (NETLAB + "subnet: 10.0.0.0/8\n", "`10.0.0.0/8` is /8; it can be /16 to /28"),
        (NETLAB + "subnet: 8.8.8.0/24\n", "8.8.8.0/24 isn't private"),
        (NETLAB + "subnet: 127.0.0.0/16\nallow_public: true\n", "has a meaning of its own on every machine"),
        (NETLAB + "nodes: 14\nsubnet: 10.0.0.0/28\n", "3:8: `nodes`: 14 nodes, but 10.0.0.0/28 has addresses for 13"),
        ("name: rack\ntype: ssh\n", "1:1: the compute needs the key `hosts`"),
        (SSH + "[]\n", "needs at least 1 entries"),
        (SSH + "[a, {address: b, name: a}]\n", "3:12: `hosts.1`: two hosts are called `a`"),
        (SSH + "[{adress: a}]\n", "unknown key `adress` in `hosts.0`. Did you mean `address`?"),
        (SSH + "[ada@a]\n", "`hosts.0.address`: `ada@a` has a user in it. Write `address: a` and `user: ada`."),
        (SSH + "['-oProxyCommand=x']\n", "a host's name or its IP address"),
        (SSH + "[a]\nuser: -x\n", "4:7: `user`: `-x` isn't allowed here: the name of a user"),
        (SSH + "[a]\nprograms: bin\n", "a path that begins with `/`"),
        (SSH + "[a]\noptions: [x]\n", "4:11: `options.0`: `x` isn't allowed here: one of ssh's own"),
        ("name: c\ntype: slurm\n", "1:1: the compute needs the key `folder`"),
        (SLURM + "time_limit: 1:99\n", "minutes, or [D-]HH:MM:SS"),
        (SLURM + "partition: -x\n", "one line that doesn't begin with `-`"),
        (SLURM + "options: [mem]\n", "one of sbatch's own, like `--mem=64G`"),
        (KUBERNETES + "namspace: ml\n", "3:1: unknown key `namspace`. Did you mean `namespace`?"),
        (KUBERNETES + "namespace: ML\n", "`ML` isn't allowed here: lower-case letters, digits and `-`"),
        (KUBERNETES + "memory: 64 GB\n", "an amount like `64Gi` or `500M`"),
        (KUBERNETES + "folder: /data\n", "3:9: `folder`: `/data` is on none of `volumes`, so its files would vanish"),
        (KUBERNETES + "pod: {specs: {}}\n", "a pod has no `specs` to set. Did you mean `spec`?"),
        (KUBERNETES + "pod: {spec: []}\n", "`pod.spec`: spec is a mapping"),
        (
            KUBERNETES + "pod: {spec: {restartPolicy: Always}}\n",
            "drumbeat sets spec.restartPolicy of its pods itself. Remove it.",
        ),
        (
            KUBERNETES + "volumes: [{name: a, mount_path: /a, source: {}}]\n",
            "`volumes.0.source`: a volume has one source, got none. Write one, like `persistentVolumeClaim:",
        ),
        (
            KUBERNETES + "volumes: [{name: a, mount_path: /drumbeat/x, source: {emptyDir: {}}}]\n",
            "lies in the folder that is drumbeat's own in each pod. Mount it outside /drumbeat.",
        ),
        (
            KUBERNETES + "volumes: [{name: drumbeat-x, mount_path: /x, source: {emptyDir: {}}}]\n",
            "`drumbeat-x` is a name of drumbeat's own",
        ),
        (
            KUBERNETES + "volumes: [&v {name: a, mount_path: /a, source: {emptyDir: {}}}, *v]\n",
            "`volumes.1`: two volumes have the name `a`. Remove one, or change it.",
        ),
        ("name: r\ntype: ray\n", "1:1: the compute needs the key `address`"),
        ("name: r\ntype: ray\naddress: head:8265\n", "`head:8265` isn't allowed here: a URL like `http://head:8265`"),
        (RAY + "resources: {GPU: 1}\n", "`GPU` isn't a custom resource of Ray's. Ask for GPUs in the job."),
        (RAY + "resources: {a100: 0}\n", "`resources.a100`"),
        (RAY + "ca_file: ca.pem\n", "4:10: `ca_file`: `http://head:8265` isn't https, so no certificate is checked."),
        (RAY + "headers: {Authorization: x}\n", "Write the token into a file, and name it as `token_file`."),
        (RAY + "min_instances: 3\nmax_instances: 2\n", "min_instances is 3, and max_instances is 2"),
        ("- x\n", "1:1: a compute is a mapping of keys, not a list"),
    ],
)
def test_what_cant_be_meant_is_refused_at_its_line(file: Path, text: str, says: str):
    file.write_text(text)
    with pytest.raises(SpecError) as caught:
        load_compute(file)
    assert says in str(caught.value).replace(f"{file}:", "")


def test_a_public_network_can_be_insisted_on():
    spec = {"name": "lab", "type": "netlab", "subnet": "8.8.8.0/24", "allow_public": True}
    assert to_dict(compute_from(spec)) == spec


def test_every_problem_comes_at_once(file: Path):
    assert [one.split(":")[0] for one in problems(file, NETLAB + "nodes: 0\nbandwidth: 1\nx: 1\n")] == ["3", "4", "5"]


def test_kubeconfig_beside_the_file_is_read_from_everywhere(file: Path):
    file.write_text("name: k\ntype: kubernetes\nkubeconfig: kube.yml\n")
    assert getattr(load_compute(file), "kubeconfig", "") == f"{file.parent}/kube.yml"


def test_token_beside_the_file_is_read_from_everywhere(file: Path):
    file.write_text(RAY + "token_file: token\n")
    assert getattr(load_compute(file), "token_file", "") == f"{file.parent}/token"
