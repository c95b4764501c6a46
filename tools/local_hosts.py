"""Hosts of one machine, for benchmarks and tests: a testbed of network namespaces, secrets, workers that run there.

The testbed is the program that PENSTOCK_TESTBED names (default: ../shared/testbed/hosts beside the tree): `up
NAME:CPU%:RATE ...`, `exec NAME COMMAND`, `address`, `cut`, `join`, `down`. It needs root.
"""

import fcntl
import os
import random
import re
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTBED = os.environ.get("PENSTOCK_TESTBED", str(ROOT.parent / "shared/testbed/hosts"))
PORT = 8500


def find_program() -> str:
    """PENSTOCK_BIN, or that of the first preset that is built."""
    named = os.environ.get("PENSTOCK_BIN")
    places = [Path(named)] if named else [ROOT / f"build/{preset}/bin/penstock" for preset in ("dev", "release")]
    for place in places:
        if place.exists():
            return str(place.resolve())
    raise FileNotFoundError(f"no program at {', '.join(map(str, places))}: build one, or name it in PENSTOCK_BIN")


def free_port() -> int:
    """Of 127.0.0.1: nobody listens there now. It is below those that the system gives to who asks for any, as other
    tests do meanwhile."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        with socket.socket() as one, suppress(OSError):
            port = random.randrange(min(10_000, first - 1000), first)
            one.bind(("127.0.0.1", port))
            return port


def why_no_testbed() -> str:
    """A sentence; empty where there can be one."""
    if not Path(TESTBED).exists():
        return f"no testbed at '{TESTBED}': PENSTOCK_TESTBED names it"
    return "" if os.geteuid() == 0 else "the testbed needs root"


class NoTestbed(Exception):
    """It cannot be made here."""


class Testbed:
    """Hosts that are up. Made by :func:`testbed`."""

    def __init__(self, names: Sequence[str]) -> None:
        self.addresses = {name: f"{self._told('address', name)}:{PORT}" for name in names}
        """host:port, of the worker there."""

    @staticmethod
    def _told(*words: str) -> str:
        done = subprocess.run([TESTBED, *words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NoTestbed(f"{TESTBED} {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout.strip()

    def cut(self, name: str) -> None:
        """Unplugs its cable: what is sent is lost, and nobody is told."""
        self._told("cut", name)

    def join(self, name: str) -> None:
        self._told("join", name)

    @staticmethod
    def on(name: str) -> list[str]:
        """What goes before a command that runs on the host."""
        return [TESTBED, "exec", name]


@contextmanager
def testbed(hosts: Mapping[str, str]) -> Iterator[Testbed]:
    """hosts: name -> what the testbed takes behind it: "50:200mbit", per cent of a core and the rate of its cable.

    There is one at a time: waits for others that were made here. Raises NoTestbed.
    """
    with open(Path(tempfile.gettempdir()) / "penstock-testbed.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            Testbed._told("up", *(f"{name}:{what}" for name, what in hosts.items()))
        except NoTestbed as error:
            if "already up" in str(error):
                raise RuntimeError(f"hosts that nobody uses are up: {TESTBED} down") from error
            raise
        try:
            yield Testbed(list(hosts))
        finally:
            Testbed._told("down")


@dataclass(frozen=True)
class Secrets:
    """Files of an authority, a certificate for some addresses, and a token. Made by :func:`make_secrets`."""

    folder: Path

    @property
    def worker_arguments(self) -> list[str]:
        files = {"--tls-certificate": "worker.pem", "--tls-key": "worker.key", "--tokens": "tokens"}
        files |= {"--peer-authority": "ca.pem", "--peer-token": "token"}
        return [word for option, name in files.items() for word in (option, str(self.folder / name))]

    @property
    def remote_options(self) -> dict[str, str]:
        """Of the backend `remote`, for who calls."""
        return {"root_file": str(self.folder / "ca.pem"), "token_file": str(self.folder / "token")}

    @property
    def environment(self) -> dict[str, str]:
        """The same for a program that is started."""
        return {f"PENSTOCK_REMOTE_{name.upper()}": value for name, value in self.remote_options.items()}

    def replace_certificate(self, hosts: Sequence[str]) -> None:
        """A new key, and a certificate for it of a new authority, which is believed beside the earlier ones."""
        number = len(list(self.folder.glob("ca-*.key")))
        new_key = ["-newkey", "rsa:2048", "-nodes"]
        authority, names = f"ca-{number}", self.folder / "names"
        names.write_text("subjectAltName=" + ",".join(f"IP:{host}" for host in dict.fromkeys(hosts)))
        self._openssl(
            *("req", "-x509", *new_key, "-days", "2", "-subj", f"/CN=authority {number}"),
            *("-keyout", f"{authority}.key", "-out", f"{authority}.pem"),
        )
        self._openssl("req", *new_key, "-keyout", "new.key", "-out", "worker.csr", "-subj", f"/CN=worker {number}")
        signed_by = ["-CA", f"{authority}.pem", "-CAkey", f"{authority}.key", "-CAcreateserial"]
        self._openssl(
            *("x509", "-req", "-in", "worker.csr", "-out", "new.pem", *signed_by),
            *("-days", "2", "-extfile", names.name),
        )
        believed = "".join(file.read_text() for file in sorted(self.folder.glob("ca-*.pem")))
        (self.folder / "new.ca").write_text(believed)
        for new, name in {"new.ca": "ca.pem", "new.pem": "worker.pem", "new.key": "worker.key"}.items():
            (self.folder / new).rename(self.folder / name)

    def _openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)


def make_secrets(folder: Path, hosts: Sequence[str]) -> Secrets:
    """Workers take models over TLS from who has the token. hosts: IP addresses that the certificate is for."""
    made = Secrets(folder)
    made.replace_certificate(hosts)
    command = [find_program(), "token", "local", "--rights", "infer,load"]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    (folder / "tokens").write_text(told.stdout)
    (folder / "token").write_text(told.stderr.removeprefix("token: "))
    return made


class Worker:
    """A `penstock worker` that listens. Use ``with``, or :meth:`end`."""

    def __init__(
        self,
        cache: Path,
        *arguments: str,
        listen: str = "127.0.0.1:0",
        before: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """before: what goes before the command, as :meth:`Testbed.on` has it."""
        self.command = [*before, find_program(), "worker", "--cache", str(cache), *arguments]
        self.environment = {**os.environ, **(environment or {})}
        self.address = listen
        self.start()

    def start(self) -> None:
        """Also again, at the same address, when it was ended or killed."""
        command = [*self.command, "--listen", self.address]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=self.environment)
        output = self.process.stdout
        assert output is not None
        self.http_address = ""
        said = ""
        for line in output:
            said += line
            if found := re.search(r"gRPC on (\S+)", line):
                self.address = found[1]
            if found := re.search(r"HTTP on (\S+)", line):
                self.http_address = found[1]
            if self.address and bool(self.http_address) == ("--http" in command) and "gRPC on" in said:
                break
        else:
            raise RuntimeError(f"{' '.join(command)}: ended with {self.process.wait()}: {said}")
        threading.Thread(target=output.read, daemon=True).start()  # Nobody waits for a full pipe.

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
