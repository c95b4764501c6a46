"""What `script/package` made, installed on a bare Debian each, where it has to work; `script/package --test` runs this.

In each the program builds a package by measurement, verifies it, and serves it to a request; and a program in C++ and
one in C push frames through it, which were built here by find_package(Penstock) against nothing but what was installed.
"""

import json
import math
import os
import re
import shutil
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ROOT / "build/packages"
BARE = ROOT / ".prefix/bare-system"  # Making it takes most of the time, so it is kept.

# Of this machine, so that apt in a bare system installs from where it does here.
APT = (
    "/etc/apt",
    "/etc/resolv.conf",
    "/etc/hosts",
    "/usr/share/keyrings",
    "/var/lib/apt/lists",
    "/var/cache/apt/archives",
)

PYTHON = """
import sys, numpy, penstock
assert penstock.__file__.startswith(sys.prefix), penstock.__file__
costs = {"budget": 1, "backends": ["onnxruntime"], "costs": sys.argv[2]}
with penstock.split(sys.argv[1], cuts=[3]) as cut, penstock.build(sys.argv[1], **costs) as built:
    image = numpy.full(cut.get_inputs()[0].shape, 0.5, numpy.float32)
    numpy.testing.assert_allclose(cut(image)[0], built(image)[0], rtol=1e-3, atol=1e-5)
names = {backend["name"] for backend in penstock.backends()["backends"]}
assert names == {"cuda", "onnxruntime", "openvino", "onednn", "remote"}, names
print(penstock.cmake_dir())
"""


def run(*command: str | Path, **options: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return str(done.stdout)


def made(pattern: str) -> list[Path]:
    found = sorted(PACKAGES.glob(pattern))
    if not found:
        pytest.skip(f"no {pattern} in {PACKAGES}: script/package makes it")
    return found


class System:
    """A bare system in a folder. What runs in it sees this machine's network, and nothing else of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}
        self.program = ""  # How Penstock's is called.

    def command(self, *words: str | Path, apt: bool = False) -> list[str]:
        """The mounts are the command's own and end with it."""
        mounts = ["/dev", "/proc", "/sys", *(APT if apt else ())]
        lines = [f'mount --rbind "{path}" "{self.root}{path}"' for path in mounts if os.path.exists(path)]
        variables = " ".join(f"'{name}={value}'" for name, value in self.environment.items())
        lines.append(f'exec chroot "{self.root}" /usr/bin/env -i --chdir=/root {variables} "$@"')
        return ["unshare", "--mount", "sh", "-ec", "\n".join(lines), "sh", *map(str, words)]

    def run(self, *words: str | Path, apt: bool = False) -> str:
        return run(*self.command(*words, apt=apt))

    def put(self, source: Path, folder: str) -> str:
        """Copies a file or a folder into a folder of the system."""
        target = self.root / folder.lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target / source.name)
        else:
            shutil.copy2(source, target)
        return f"{folder}/{source.name}"


@pytest.fixture(scope="session")
def bare() -> Path:
    ready = subprocess.run([ROOT / "tools/bare_system.sh", BARE], capture_output=True, text=True, check=False)
    if ready.returncode == 3:
        pytest.skip(ready.stdout.strip())
    assert ready.returncode == 0, ready.stdout
    return BARE


@pytest.fixture
def system(bare: Path, tmp_path: Path, network: Path) -> Iterator[System]:
    made = System(tmp_path / "system")
    run("cp", "-a", bare, made.root)
    for path in APT:
        if os.path.isfile(path):
            (made.root / path[1:]).touch()
    for compiler in ("cc", "gcc", "g++", "clang"):
        assert not list(made.root.glob(f"usr/bin/{compiler}*")), "a bare system has no compiler"
    made.put(network, "/net")
    yield made
    shutil.rmtree(made.root)


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("network")
    run(sys.executable, ROOT / "tools/make_models.py", "--out", folder, "resnet_tiny")
    return (folder / "resnet_tiny.onnx").rename(folder / "network.onnx")


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pip brings of the engines: files, as the bare systems may not know this machine's index."""
    folder = tmp_path_factory.mktemp("engines")
    pinned = ("-c", ROOT / "requirements-dev.txt")
    run(sys.executable, "-m", "pip", "download", "-q", "--no-input", "-d", folder, *pinned, "onnxruntime", "openvino")
    return folder


def consumers(tmp_path: Path, argument: str) -> list[Path]:
    """Programs in C++ and C, built against an installation."""
    programs = []
    for example, program in (("embed", "embed"), ("c", "frames")):
        build = tmp_path / f"consumer-{example}"
        options = ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF", "-DCMAKE_SKIP_RPATH=ON"]
        options += [f"-DCMAKE_{language}_COMPILER_LAUNCHER=ccache" for language in ("C", "CXX")]
        run("cmake", "-G", "Unix Makefiles", "-S", ROOT / "examples" / example, "-B", build, *options, argument)
        run("cmake", "--build", build)
        programs.append(build / program)
    return programs


def check_works(system: System, programs: list[Path]) -> None:
    system.environment["PENSTOCK_COSTS"] = "/root/costs.db"
    penstock = system.program
    found = {backend["name"]: backend for backend in json.loads(system.run(penstock, "backends", "--json"))["backends"]}
    assert found["onnxruntime"]["available"], found
    package = "/root/built.penstock"
    system.run(penstock, "build", "/net/network.onnx", "-o", package, "--budget", "1s", "--backends", "onnxruntime")
    system.run(penstock, "verify", package, "--model", "/net/network.onnx")
    check_serves(system, package)
    for program in programs:
        assert "frame 19: " in system.run(system.put(program, "/consumers"), package, "20")


def check_serves(system: System, package: str) -> None:
    addresses = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
    command = system.command(system.program, "serve", f"m={package}", *addresses)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        assert server.stdout is not None
        said = []
        try:
            for line in server.stdout:
                said.append(line)
                if at := re.search(r"HTTP on (\S+)", line):
                    break
            else:
                pytest.fail("".join(said))
            model = f"http://{at[1]}/v2/models/m"
            with urllib.request.urlopen(model) as answer:
                (tensor,) = json.load(answer)["inputs"]
            values = [0.5] * math.prod(tensor["shape"])
            body = json.dumps({"inputs": [{**tensor, "data": values}]}).encode()
            with urllib.request.urlopen(f"{model}/infer", body) as answer:
                (output,) = json.load(answer)["outputs"]
            assert len(output["data"]) > 1 and len(set(output["data"])) > 1
        finally:
            server.terminate()
    assert server.returncode == 0, "".join(said)


def add_engines(system: System, engines: Path, environment: str) -> None:
    """A Python environment with the engines, as docs/install.md makes it."""
    system.put(engines, "/wheels")
    system.run("python3", "-m", "venv", environment)
    system.run(
        f"{environment}/bin/pip",
        "install",
        "-q",
        "--no-index",
        "--find-links",
        f"/wheels/{engines.name}",
        "onnxruntime",
    )


def test_debian_packages_install_and_serve(system: System, engines: Path, tmp_path: Path) -> None:
    packages = made("*.deb")
    for package in packages:
        run("dpkg", "-x", package, tmp_path / "unpacked")
    programs = consumers(tmp_path, f"-DCMAKE_PREFIX_PATH={tmp_path}/unpacked/usr")
    paths = [system.put(package, "/packages") for package in packages]
    system.run("apt-get", "update", "-q", apt=True)
    system.run("apt-get", "install", "-y", "-q", "--no-install-recommends", *paths, apt=True)
    add_engines(system, engines, "/var/lib/penstock/engines")
    system.environment["VIRTUAL_ENV"] = "/var/lib/penstock/engines"
    system.program = "penstock"
    check_works(system, programs)
    check_units(system, tmp_path)
    names = [line.split()[1] for line in system.run("dpkg", "-l", "*penstock*").splitlines() if line.startswith("ii")]
    system.run("apt-get", "purge", "-y", "-q", *names, apt=True)
    assert not list((system.root / "usr").rglob("*penstock*"))


def check_units(system: System, tmp_path: Path) -> None:
    """systemd takes them, of this machine, which has no penstock; what they start is in the bare system."""
    for unit in ("penstock-serve.service", "penstock-worker.service"):
        text = (system.root / "usr/lib/systemd/system" / unit).read_text()
        assert "ExecStart=/usr/bin/penstock " in text
        (tmp_path / unit).write_text(text.replace("/usr/bin/penstock", "/bin/true"))
        if shutil.which("systemd-analyze"):
            run("systemd-analyze", "verify", "--man=no", tmp_path / unit)


def test_the_archive_runs_from_any_folder(system: System, engines: Path, tmp_path: Path) -> None:
    (archive,) = made("penstock-*.tar.gz")
    folder = system.root / "opt/any folder"
    for place in (folder, tmp_path / "here"):
        place.mkdir(parents=True)
        run("tar", "-xzf", archive, "-C", place)
    (here,), (tree,) = (tmp_path / "here").iterdir(), folder.iterdir()
    programs = consumers(tmp_path, f"-DCMAKE_PREFIX_PATH={here}")
    (wheel,) = engines.glob("onnxruntime-*.whl")
    with zipfile.ZipFile(wheel) as file:
        (engine,) = [
            name for name in file.namelist() if re.fullmatch(r"onnxruntime/capi/libonnxruntime\.so[.0-9]*", name)
        ]
        (tree / "lib" / Path(engine).name).write_bytes(file.read(engine))
    inside = "/" + str(tree.relative_to(system.root))
    system.environment["LD_LIBRARY_PATH"] = f"{inside}/lib"  # The consumers': the program needs none.
    system.program = f"{inside}/bin/penstock"
    check_works(system, programs)


def test_the_wheel_needs_no_compiler(system: System, engines: Path, tmp_path: Path) -> None:
    wheel = next(path for path in made("penstock-*.whl") if f"-cp3{sys.version_info.minor}-cp3" in path.name)
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path / "here")
    programs = consumers(tmp_path, f"-DPenstock_DIR={tmp_path}/here/penstock/_lib/cmake/Penstock")
    system.put(engines, "/wheels")
    links = ("--no-index", "--find-links", f"/wheels/{engines.name}")
    system.run("python3", "-m", "venv", "/env")
    system.run("/env/bin/pip", "install", "-q", *links, system.put(wheel, "/wheels"), "openvino")
    libraries = system.run("/env/bin/python", "-c", PYTHON, "/net/network.onnx", "/root/python.db").strip()
    system.environment["LD_LIBRARY_PATH"] = libraries.removesuffix("/cmake/Penstock")  # The consumers'.
    system.program = "/env/bin/penstock"
    check_works(system, programs)


def test_the_stable_wheel_runs_on_a_later_python(network: Path, tmp_path: Path) -> None:
    (wheel,) = made("penstock-*-abi3-*.whl")
    python = os.environ.get("PENSTOCK_STABLE_PYTHON")
    if not python:
        pytest.skip(
            "no Python 3.12 or later is named in PENSTOCK_STABLE_PYTHON; script/package --test names the one it found"
        )
    run(python, "-m", "venv", tmp_path / "env")
    run(tmp_path / "env/bin/pip", "install", "-q", "--no-input", wheel)
    environment = {"PATH": "/nowhere", "HOME": str(tmp_path)}  # No compiler.
    run(tmp_path / "env/bin/python", "-c", PYTHON, network, tmp_path / "costs.db", env=environment)
    assert "onnxruntime" in run(tmp_path / "env/bin/penstock", "backends", env=environment)
