"""Limits of memory and threads, as `ulimit` sets them: a sentence that says what to do, and no bug of Penstock's."""

import os
import re
import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

MIB = 2**20


def limited(program, kind, most, *arguments):
    """The program's exit code and its one line of error."""

    def limit():
        resource.setrlimit(kind, (most, resource.getrlimit(kind)[1]))

    command = [program, *map(str, arguments)]
    done = subprocess.run(command, preexec_fn=limit, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr.startswith("penstock: error: "), done
    assert done.stderr.count("\n") == 1, done
    return done.returncode, done.stderr.removeprefix("penstock: error: ").strip()


@pytest.mark.sweep(of=3)
def test_memory_that_is_out_is_told_with_what_to_do(program, tmp_path):
    large = tmp_path / "costs.json"
    large.touch()
    os.truncate(large, 512 * MIB)  # Nothing on the disk.
    told = limited(program, resource.RLIMIT_AS, 300 * MIB, "costs", "import", large)
    assert told == (1, "out of memory; raise the limit of memory (ulimit -v), or give less to do at once")


@pytest.mark.parametrize("option", ["--output y", "--output y.npz", "--trace t.json", "--record r.html"])
def test_no_part_stays_of_a_file_that_cannot_be_written_whole(program, package, tmp_path, option):
    """As where the disk is full: a reader would take the part for all. What is written is larger than a block."""
    before = sorted(tmp_path.rglob("*"))
    script = 'trap "" XFSZ; ulimit -f 0; exec "$@"'
    command = ["sh", "-c", script, "sh", program, "run", package, "--frames", "1", *option.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("penstock: error: ")]
    assert re.search(rf"'{option.split()[1]}.*' ?.*cannot be written|cannot write '{option.split()[1]}'", error), error
    assert [path for path in sorted(tmp_path.rglob("*")) if path.is_file() and path not in before] == []


def test_an_engine_that_finds_no_memory_is_not_called_absent(program, package):
    # Enough for the program and the package, not for ONNX Runtime: what `limited` asks for is one line, the error.
    code, told = limited(program, resource.RLIMIT_AS, 195 * MIB, "run", package)
    assert code == 1
    assert re.fullmatch(
        r"stage 'stage0': ONNX Runtime, '.*', cannot be loaded: out of memory: expected \d+ MiB more; raise the "
        r"limit of memory \(ulimit -v\), or run less at once",
        told,
    ), told


@pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_STACK)[1] != resource.RLIM_INFINITY, reason="the stack's size has a hard limit"
)
@pytest.mark.parametrize(
    ("command", "told"),
    [
        (
            "bench",
            "no thread could be started: Resource temporarily unavailable; raise the limit of threads (ulimit -u) or "
            "of memory (ulimit -v), or run less at once",
        ),
        (
            "run",
            "stage 'stage0': no thread could be started: Resource temporarily unavailable; raise the limit of threads "
            "(ulimit -u) or of memory (ulimit -v), or run less at once",
        ),
    ],
)
def test_threads_that_the_system_refuses_are_told_with_what_to_do(program, package, command, told):
    # No thread has room for such a stack; a limit of their number does not bind root.
    assert limited(program, resource.RLIMIT_STACK, 2**46, command, package) == (1, told)


@pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_STACK)[1] != resource.RLIM_INFINITY, reason="the stack's size has a hard limit"
)
def test_threads_that_the_system_refuses_to_grpc_are_told_too(program, well, chain, tmp_path):
    """gRPC itself would wait for them for ever."""
    well("split", chain, "--devices", "127.0.0.1:1/cpu:0", "-o", tmp_path / "far")
    code, told = limited(program, resource.RLIMIT_STACK, 2**46, "run", tmp_path / "far", "--frames", "1")
    assert code == 1
    assert told.startswith("stage 'stage0': no thread could be started: ")


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="the limit does not bind root")
def test_a_process_that_the_system_refuses_is_told_with_what_to_do(program, chain, tmp_path):
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    folder = Path(tempfile.mkdtemp())  # pytest's own is its user's alone.
    try:
        folder.chmod(0o777)
        shutil.copy(chain, folder / "model.onnx")
        env = os.environ | {"HOME": str(folder), "TMPDIR": str(folder)}
        if subprocess.run([*nobody, program, "--version"], env=env, capture_output=True, check=False).returncode != 0:
            pytest.skip("the program lies where other users may not go")
        command = [*nobody, "prlimit", "--nproc=3", program, "build", "model.onnx", "-o", "p", "--costs", "c.db"]
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)
    finally:
        shutil.rmtree(folder)
    assert done.returncode == 1, done
    assert done.stderr.splitlines()[-1].endswith(
        "penstock-measure': cannot be started: Resource temporarily unavailable; raise the limit of processes "
        "(ulimit -u), or run less at once"
    ), done.stderr


@pytest.mark.sweep(of=3)
def test_a_build_needs_few_open_files(program, chain, tmp_path, cpu):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    command = [program, "build", chain, "-o", tmp_path / "p", "--budget", "1s", "--devices", f"cpu:{cpu}"]
    command += ["--costs", tmp_path / "costs.db"]
    done = subprocess.run(command, preexec_fn=limit, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done


@pytest.mark.sweep(of=3)
def test_a_build_runs_in_a_control_group_of_little_memory(program, chain, tmp_path, cpu):
    limit = next(iter(Path("/sys/fs/cgroup").glob("memory/memory.limit_in_bytes")), None)
    if limit is None:
        pytest.skip("no control groups of version 1 that limit memory are here")
    group = limit.parent / f"penstock-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        (group / limit.name).write_text(str(400 * MIB))
        command = [program, "build", chain, "-o", tmp_path / "p", "--budget", "1s", "--devices", f"cpu:{cpu}"]
        command += ["--costs", tmp_path / "costs.db", "--backends", "onnxruntime"]
        enter = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs")]
        done = subprocess.run([*enter, *map(str, command)], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done
    finally:
        end = time.monotonic() + 60
        while True:  # What the program left behind may be on its way out.
            try:
                group.rmdir()
                break
            except OSError:
                assert time.monotonic() < end, (group / "cgroup.procs").read_text()
                time.sleep(0.01)
