"""`virtual_kubelet.py NODE SERVER TOKEN KEYS FOLDER`: a Kubernetes node whose pods are processes of this machine.

A node of its own to a real API server and scheduler. Of a pod it knows: command, args, env (value, fieldRef), volumes
(secret, configMap, emptyDir, hostPath) at their mountPath, grace time, restartPolicy Never, reasons Completed, Error
and StartError. Words in argv and env that begin with a mountPath are rewritten to where the volume lies. It knows no
images, limits or networks: every pod is at 127.0.0.1.

SIGUSR1: it reports no more, and its pods go on (a node that is cut off). SIGTERM: it ends with all of its pods.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Json = dict[str, Any]
NODE, SERVER, TOKEN, KEYS, FOLDER = sys.argv[1:6]
CONTEXT = ssl.create_default_context(cafile=f"{KEYS}/ca.crt")
IS_SILENT = threading.Event()
MERGE = "application/merge-patch+json"
CAPACITY = {"cpu": "4", "memory": "16Gi", "pods": "110"}
CONDITIONS = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
REPORT_INTERVAL_S = 1.5
MAX_MESSAGE = 2048
CANT_START = 128


def stamp() -> str:
    """The time, as Kubernetes writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def request(method: str, path: str, body: object = None, kind: str = "application/json", timeout_s: float = 10) -> Any:
    """The open answer to a request."""
    content = json.dumps(body).encode() if body is not None else None
    made = urllib.request.Request(SERVER + path, content)  # noqa: S310 - the lab's own URL
    made.method = method
    made.add_header("Authorization", f"Bearer {TOKEN}")
    made.add_header("Content-Type", kind)
    return urllib.request.urlopen(made, timeout=timeout_s, context=CONTEXT)  # noqa: S310


def answer(method: str, path: str, body: object = None, kind: str = "application/json") -> Json:
    """The answer to a request."""
    with request(method, path, body, kind) as content:
        return json.load(content)


def kill_below(place: Path) -> None:
    """Kills every process with a POD_ROOT at this place or below, in whatever session, as a PID namespace would."""
    mark = f"POD_ROOT={place}".encode()
    for _ in range(50):
        killed = False
        for one in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if one.name.isdigit() and any(
                    part.startswith(mark) for part in (one / "environ").read_bytes().split(b"\0")
                ):
                    os.kill(int(one.name), signal.SIGKILL)
                    killed = True
        if not killed:
            return
        time.sleep(0.05)


def end(*_: object) -> None:
    """Ends the node with all of its pods."""
    IS_SILENT.set()
    kill_below(Path(FOLDER))
    os._exit(0)


def report() -> None:
    """Says that the node is ready, as long as it isn't silent."""
    while not IS_SILENT.is_set():
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "virtual"}
        condition = {**ready, "lastHeartbeatTime": stamp(), "lastTransitionTime": stamp()}
        addresses = [{"type": "InternalIP", "address": "127.0.0.1"}]
        status = {"capacity": CAPACITY, "allocatable": CAPACITY, "addresses": addresses, "conditions": [condition]}
        with contextlib.suppress(OSError):
            request("PATCH", f"/api/v1/nodes/{NODE}/status", {"status": status}, MERGE).close()
        time.sleep(REPORT_INTERVAL_S)


class Pod:
    """A pod of this node, in threads of its own."""

    def __init__(self, given: Json) -> None:
        self.meta, self.spec = given["metadata"], given["spec"]
        self.space = f"/api/v1/namespaces/{self.meta['namespace']}"
        self.path = f"{self.space}/pods/{self.meta['name']}"
        self.root = Path(FOLDER) / self.meta["uid"]
        self.container = self.spec["containers"][0]
        self.process: subprocess.Popen[bytes] | None = None
        self.is_dying, self.started_at = False, stamp()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def put(self, phase: str, state: Json) -> None:
        """Reports its status. What others say of it (DisruptionTarget) stays."""
        is_running = phase == "Running"
        own = [
            {
                "type": kind,
                "status": "True" if is_running or kind in ("Initialized", "PodScheduled") else "False",
                "lastTransitionTime": stamp(),
            }
            for kind in CONDITIONS
        ]
        with contextlib.suppress(OSError, ValueError, KeyError):
            shown = answer("GET", self.path)["status"].get("conditions", ())
            own += [one for one in shown if one["type"] not in CONDITIONS]
        container = {
            "name": self.container["name"],
            "image": self.container.get("image", ""),
            "imageID": "",
            "ready": is_running,
            "started": is_running,
            "restartCount": 0,
            "state": state,
        }
        address = {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}], "hostIP": "127.0.0.1"}
        status = {
            "phase": phase,
            **address,
            "startTime": self.started_at,
            "conditions": own,
            "containerStatuses": [container],
        }
        while not IS_SILENT.is_set():
            try:
                request(
                    "PATCH", f"{self.path}/status", {"metadata": {"uid": self.meta["uid"]}, "status": status}, MERGE
                ).close()
            except urllib.error.HTTPError as error:
                if error.code in (404, 409):
                    return
            except OSError:
                pass
            else:
                return
            time.sleep(0.5)

    def places(self) -> dict[str, Path]:
        """Where each volume lies."""
        made: dict[str, Path] = {}
        for volume in self.spec.get("volumes", ()):
            place = self.root / "volumes" / volume["name"]
            if "hostPath" in volume:
                place = Path(volume["hostPath"]["path"])
            else:
                place.mkdir(parents=True, exist_ok=True)
            for kind, key, what in (("secret", "secretName", "secrets"), ("configMap", "name", "configmaps")):
                if kind in volume:
                    self.write_files(place, volume[kind], answer("GET", f"{self.space}/{what}/{volume[kind][key]}"))
            made[volume["name"]] = place
        return made

    @staticmethod
    def write_files(place: Path, source: Json, content: Json) -> None:
        is_secret = content.get("kind") == "Secret"
        data = content.get("data") or {}
        texts = {name: base64.b64decode(text) if is_secret else text.encode() for name, text in data.items()}
        texts |= {name: base64.b64decode(text) for name, text in (content.get("binaryData") or {}).items()}
        for item in source.get("items") or [{"key": name, "path": name} for name in texts]:
            mode = source.get("defaultMode", 0o644)
            opened = os.open(place / item["path"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
            with os.fdopen(opened, "wb") as out:
                out.write(texts[item["key"]])

    def environment(self) -> dict[str, str]:
        fields = {
            "metadata.name": self.meta["name"],
            "metadata.namespace": self.meta["namespace"],
            "metadata.uid": self.meta["uid"],
            "status.podIP": "127.0.0.1",
            "spec.nodeName": NODE,
        }
        path = os.environ.get("PATH", "/usr/bin:/bin")
        made = {"PATH": path, "HOSTNAME": self.meta["name"], "HOME": str(self.root), "POD_ROOT": str(self.root)}
        for one in self.container.get("env", ()):
            source = one.get("valueFrom", {}).get("fieldRef", {})
            made[one["name"]] = fields.get(source["fieldPath"], "") if source else one.get("value", "")
        return made

    def run(self) -> None:
        """Starts its process and reports how it ended."""
        log = self.root / "log"
        try:
            self.root.mkdir(parents=True)
            places = self.places()
            mounts = sorted(
                ((one["mountPath"], str(places[one["name"]])) for one in self.container.get("volumeMounts", ())),
                reverse=True,
            )
            words = [*self.container.get("command", ()), *self.container.get("args", ())]
            with log.open("wb") as out:
                self.process = subprocess.Popen(
                    [_placed(word, mounts) for word in words],
                    env={name: _placed(value, mounts) for name, value in self.environment().items()},
                    cwd=self.root,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except (OSError, KeyError, IndexError) as error:
            self.put("Failed", self.terminated(CANT_START, "StartError", str(error)))
            return
        self.put("Running", {"running": {"startedAt": self.started_at}})
        code = self.process.wait()
        kill_below(self.root)
        code = CANT_START - code if code < 0 else code
        message = ""
        if code and self.container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            with contextlib.suppress(OSError):
                message = log.read_text(errors="replace")[-MAX_MESSAGE:]
        reason = "Completed" if code == 0 else "Error"
        self.put("Succeeded" if code == 0 else "Failed", self.terminated(code, reason, message))

    def terminated(self, code: int, reason: str, message: str) -> Json:
        times = {"startedAt": self.started_at, "finishedAt": stamp()}
        return {"terminated": {"exitCode": code, "reason": reason, "message": message, **times}}

    def stop(self, grace_s: float) -> None:
        if not self.is_dying:
            self.is_dying = True
            threading.Thread(target=self.die, args=[grace_s], daemon=True).start()

    def die(self, grace_s: float) -> None:
        for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 3.0)):
            if self.process and self.process.poll() is None:
                with contextlib.suppress(OSError):
                    os.killpg(self.process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(wait_s)
        self.thread.join(3)
        shutil.rmtree(self.root, ignore_errors=True)
        if not IS_SILENT.is_set():
            delete(self.path, self.meta["uid"])


def _placed(text: str, mounts: list[tuple[str, str]]) -> str:
    for path, place in mounts:
        if text == path or text.startswith(f"{path}/"):
            return place + text[len(path) :]
    return text


def delete(path: str, uid: str) -> None:
    """Takes a pod that has ended out of the API."""
    with contextlib.suppress(OSError):
        request("DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}).close()


def changes() -> Iterator[tuple[str, Json]]:
    """All pods of this node, and then what happens to them, for half a minute."""
    pods = f"/api/v1/pods?fieldSelector=spec.nodeName={NODE}"
    listed = answer("GET", pods)
    yield "LISTED", listed
    version = listed["metadata"]["resourceVersion"]
    with request("GET", f"{pods}&watch=1&timeoutSeconds=30&resourceVersion={version}", timeout_s=40) as lines:
        for line in lines:
            event = json.loads(line)
            if event["type"] == "ERROR" or IS_SILENT.is_set():
                return
            yield event["type"], event["object"]


def follow(pods: dict[str, Pod]) -> None:
    """Keeps the pods as the API has them, for half a minute."""
    for what, given in changes():
        if what == "LISTED":
            uids = {one["metadata"]["uid"] for one in given["items"]}
            for uid in [uid for uid in pods if uid not in uids]:
                pods.pop(uid).stop(0)
            for one in given["items"]:
                take(pods, one)
        elif what == "DELETED":
            if pod := pods.pop(given["metadata"]["uid"], None):
                pod.stop(0)
        else:
            take(pods, given)


def take(pods: dict[str, Pod], given: Json) -> None:
    """Starts a new pod; stops one that is being deleted."""
    meta = given["metadata"]
    uid = meta["uid"]
    if "deletionTimestamp" in meta:
        if uid in pods:
            pods[uid].stop(meta.get("deletionGracePeriodSeconds", 0))
        else:
            delete(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}", uid)
    elif uid not in pods and given["status"].get("phase") == "Pending":
        pods[uid] = Pod(given)
        pods[uid].thread.start()


def main() -> None:
    """Ends by a signal."""
    signal.signal(signal.SIGUSR1, lambda *_: IS_SILENT.set())
    signal.signal(signal.SIGTERM, end)
    labels = {"kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux"}
    try:
        answer("POST", "/api/v1/nodes", {"metadata": {"name": NODE, "labels": labels}})
    except urllib.error.HTTPError as error:
        if error.code != 409:
            raise
    threading.Thread(target=report, daemon=True).start()
    pods: dict[str, Pod] = {}
    while not IS_SILENT.is_set():
        with contextlib.suppress(OSError, ValueError):
            follow(pods)
        time.sleep(0.5)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
