"""What is done to a running pipeline, each as a function of a scene."""

import base64
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import local_hosts
import slow_reader
from scene import SECONDS, Scene

MIB = 1 << 20
Fault = Callable[[Scene], None]


def killed(scene: Scene) -> None:
    """A worker is killed with -9 every 2 s, and started again at once."""
    for name in scene.turns(every=2):
        with scene.event():
            scene.workers[name].kill()
            scene.workers[name].start()


def stopped(scene: Scene) -> None:
    """A worker stands still for 3 s, and goes on."""
    for name in scene.turns(every=7):
        with scene.event():
            scene.workers[name].send(signal.SIGSTOP)
            time.sleep(3)
            scene.workers[name].send(signal.SIGCONT)


def cut(scene: Scene) -> None:
    """A worker's cable is unplugged for 1.5 s, longer than the pipeline's patience."""
    assert scene.testbed is not None
    for name in scene.turns(every=5):
        with scene.event():
            scene.testbed.cut(name)
            time.sleep(1.5)
            scene.testbed.join(name)


def half_open(scene: Scene) -> None:
    """A worker is killed while its cable is unplugged, and another one listens when it is plugged again.

    The pipeline's connections are half open then: nobody has told it that the other end is gone.
    """
    assert scene.testbed is not None
    for name in scene.turns(every=5):
        with scene.event():
            scene.testbed.cut(name)
            scene.workers[name].kill()
            time.sleep(0.5)  # What the dead end says meanwhile is lost.
            scene.workers[name].start()
            scene.testbed.join(name)


def slow_readers(scene: Scene) -> None:
    """Clients ask a worker for large answers, over gRPC and HTTP, and read nothing."""
    limit = 1 << 30
    for name in scene.turns(every=4):
        worker = scene.workers[name]
        with scene.event():
            readers = [
                *(slow_reader.over_grpc(worker.address, "large") for _ in range(4)),
                *(slow_reader.over_http(worker.http_address, "large") for _ in range(4)),
            ]
            time.sleep(2)
            status = Path(f"/proc/{worker.process.pid}/status").read_text()
            resident = int(status.split("VmRSS:")[1].split()[0]) * 1024
            if resident > limit:
                scene.problems.append(f"the worker holds {resident} bytes, of at most {limit}")
            for reader in readers:
                reader.close()


class Disk:
    """A small one, on which a worker keeps what it is sent."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.worker = scene.workers["b"]
        self.folder = scene.folder / "cache-b"

    def fill(self) -> None:
        left = os.statvfs(self.folder)
        with open(self.folder / "filler", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, left.f_bavail * left.f_frsize - MIB))

    def free(self) -> None:
        (self.folder / "filler").unlink()

    def stage(self, package: Path) -> str:
        """Another caller's stage is sent there. Its error, or nothing."""
        command = [local_hosts.find_program(), "run", str(package), "--frames", "1"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        return "" if done.returncode == 0 else done.stderr.strip() or "no word"

    def model(self, file: Path) -> str:
        """A model is put into the worker's repository."""
        content = base64.b64encode(file.read_bytes()).decode()
        body = json.dumps({"parameters": {"config": "{}", "file:1/model.onnx": content}}).encode()
        repository = f"http://{self.worker.http_address}/v2/repository/models/sent"
        try:
            urllib.request.urlopen(urllib.request.Request(f"{repository}/load", body), timeout=SECONDS)
            urllib.request.urlopen(urllib.request.Request(f"{repository}/unload", b"{}"), timeout=SECONDS)
        except urllib.error.HTTPError as error:
            return error.read().decode()
        return ""


def disk_full(scene: Scene) -> None:
    """The disk of a worker is full when others send it a stage and a model, and later has room."""
    disk = Disk(scene)
    device = f"{disk.worker.address}/cpu:{min(os.sched_getaffinity(0))}"
    for number, _ in enumerate(scene.turns(every=4)):
        model = slow_reader.write_constant(scene.folder / f"heavy{number}.onnx", MIB, number)  # 4 MiB, known to nobody.
        package = scene.split(model, "--devices", device)
        with scene.event():
            disk.fill()
            for said in (disk.stage(package), disk.model(model)):
                if "space" not in said and "full" not in said:
                    scene.problems.append(f"while the disk was full: {said[-300:] or 'it was taken'}")
            disk.free()
            for said in (disk.stage(package), disk.model(model)):
                if said:
                    scene.problems.append(f"when the disk had room again: {said[-300:]}")


def certificates(scene: Scene) -> None:
    """All certificates are replaced by those of a new authority; then a worker has to be reached anew."""
    assert scene.secrets is not None
    for name in scene.turns(every=6):
        worker = scene.workers[name]
        with scene.event():
            scene.secrets.replace_certificate(["127.0.0.1"])
            host, _, port = worker.address.rpartition(":")
            new = ssl.PEM_cert_to_DER_cert((scene.secrets.folder / "worker.pem").read_text())
            if not shows(host, int(port), new):
                scene.problems.append("a new connection was not shown the new certificate")
            worker.send(signal.SIGSTOP)
            time.sleep(1.5)
            worker.send(signal.SIGCONT)


def shows(host: str, port: int, certificate: bytes) -> bool:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        with socket.create_connection((host, port)) as plain, context.wrap_socket(plain) as made:
            if made.getpeercert(binary_form=True) == certificate:
                return True
        time.sleep(0.05)  # It looks once in a while.
    return False


ON_LOOPBACK: dict[str, Fault] = {"killed": killed, "stopped": stopped, "slow_readers": slow_readers}
ON_LOOPBACK |= {"disk_full": disk_full, "certificates": certificates}
ON_TESTBED: dict[str, Fault] = {"cut": cut, "half_open": half_open}
RAY = "ray_node"
NAMES = [*ON_LOOPBACK, *ON_TESTBED, RAY]


def why_not(fault: str) -> str:
    """A sentence why it cannot be made here; empty: it can."""
    if fault in ON_TESTBED:
        return local_hosts.why_no_testbed()
    if fault == "disk_full" and os.geteuid() != 0:
        return "a small disk cannot be mounted without root"
    if fault == "certificates" and shutil.which("openssl") is None:
        return "there is no openssl"
    return ""
