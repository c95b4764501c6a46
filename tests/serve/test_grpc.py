"""penstock serve over gRPC, as unchanged clients see it: clients/grpc_client.py in an environment of its own."""

import http.client
import json
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from servers import CLIENTS, SECONDS, Server, find_program, make_certificates, run_client, save, value

SCRIPT = Path(__file__).parent / "clients/grpc_client.py"


def save_add(file: Path, addend: float = 1) -> Path:
    """sum = x + addend, f32[2,4]; product = x * 3."""
    nodes = [helper.make_node("Add", ["x", "one"], ["sum"]), helper.make_node("Mul", ["x", "three"], ["product"])]
    weights = {"one": np.array(addend, np.float32), "three": np.array(3, np.float32)}
    return save(file, nodes, [value("x", [2, 4])], [value("sum", [2, 4]), value("product", [2, 4])], **weights)


def save_models(folder: Path) -> list[str]:
    """What each is for is said in clients/grpc_client.py."""
    save_add(folder / "add.onnx")
    same = [helper.make_node("Identity", ["x"], ["y"])]
    for name, dtype in {"text": TensorProto.STRING, "int8": TensorProto.INT8, "half": TensorProto.FLOAT16}.items():
        save(folder / f"{name}.onnx", same, [value("x", [3], dtype)], [value("y", [3], dtype)])
    save(folder / "open.onnx", same, [value("x", ["n", 2])], [value("y", ["n", 2])])
    add = [helper.make_node("Add", ["x", "one"], ["y"])]
    save(folder / "rows.onnx", add, [value("x", [2, 4])], [value("y", [2, 4])], one=np.array(1, np.float32))
    weight = np.eye(1500, dtype=np.float32)
    chain = [helper.make_node("MatMul", [f"x{i}" if i else "x", "w"], [f"x{i + 1}"]) for i in range(8)]
    chain.append(helper.make_node("Identity", ["x8"], ["y"]))
    save(folder / "slow.onnx", chain, [value("x", [1500, 1500])], [value("y", [1500, 1500])], w=weight)
    running = [helper.make_node("Add", ["x", "before"], ["total"]), helper.make_node("Identity", ["total"], ["sum"])]
    outputs = [value("sum", [2]), value("total", [2])]
    save(folder / "running.onnx", running, [value("x", [2]), value("before", [2])], outputs)
    made = folder / "running.penstock"
    run = [find_program(), "split", folder / "running.onnx", "--state", "total=before", "-o", made]
    subprocess.run(run, check=True, capture_output=True)
    (folder / "app.yaml").write_text(
        "penstock_app: 1\nname: app\ninputs: {frame: 'f32[2,4]'}\n"
        "nodes: {add: {network: add.onnx, inputs: {x: frame}}}\noutputs: {more: add.sum}\n"
    )
    made = folder / "batched.penstock"
    run = [find_program(), "split", folder / "rows.onnx", "--batch", "4:20", "-o", made]
    subprocess.run(run, check=True, capture_output=True)
    names = ["add", "text", "int8", "half", "open", "slow"]
    return [
        *(f"{folder / name}.onnx" for name in names),
        f"add:3={folder / 'add.onnx'}",
        *(f"{folder / name}.penstock" for name in ("running", "batched")),
        str(folder / "app.yaml"),
    ]


def ask(server: Server, case: str, *arguments: str) -> str:
    return run_client("grpc_client.py", server.address, case, *arguments, case=case)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return save_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def server(models: list[str]) -> Iterator[Server]:
    server = Server(*models, "--max-waiting", "48", "--max-sequences", "3")
    yield server
    assert server.end() == 0, server.errors


CASES = [
    "tells_of_itself",
    "names_an_unknown_method",
    "infers",
    "infers_asynchronously",
    "infers_in_asyncio",
    "computes_requests_together",
    "carries_all_types",
    "reads_contents",
    "says_what_is_wrong",
    "survives_malformed_messages",
    "streams",
    "streams_errors",
    "ends_a_stream_on_errors",
    "answers_before_it_ends_a_stream",
    "names_itself_twice",
    "has_sequences",
    "has_sequences_in_streams",
    "cancels",
    "times_out",
    "is_full",
    "counts",
    "shares_memory",
    "loads_and_unloads",
    "uploads",
    "answers_health",
    "answers_settings",
]


@pytest.mark.parametrize("case", CASES)
def test_a_client(server: Server, models: list[str], case: str) -> None:
    ask(server, case, models[0])


def test_a_token_that_is_taken_back_ends_an_open_stream(models: list[str], tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    command = [str(find_program()), "token", "me", "--rights", "infer"]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    tokens.write_text(made.stdout)
    server = Server(models[0], "--tokens", str(tokens))
    ask(server, "loses_its_token", f"{made.stderr.removeprefix('token: ').strip()}:{tokens}")
    assert server.end() == 0, server.errors


def test_it_says_what_is_served_where(server: Server) -> None:
    assert "penstock: model add version 1" in server.said
    assert "penstock: model add version 3" in server.said
    assert "penstock: model running version 1" in server.said


@pytest.mark.sweep(of=3)
def test_it_drains_and_leaves(models: list[str]) -> None:
    server = Server(models[5], "--patience", str(SECONDS))  # slow
    command = [str(CLIENTS), str(SCRIPT), server.address, "is_answered_at_the_end"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as client:
        assert client.stdout.readline() == "asked\n"
        assert server.end() == 0
        said = client.stdout.read()
        assert client.wait(SECONDS) == 0, said


@pytest.mark.parametrize(
    "case",
    ["is_told_in_an_idle_stream", "goes_elsewhere_when_the_server_leaves", "asks_until_the_server_is_gone"],
)
def test_whoever_is_still_there_is_told_that_it_leaves(models: list[str], case: str) -> None:
    server = Server(*models, "--patience", str(SECONDS))
    command = [str(CLIENTS), str(SCRIPT), server.address, case]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as client:
        assert client.stdout.readline() == "asked\n"
        assert server.end() == 0
        said = client.stdout.read()
        assert client.wait(SECONDS) == 0, said


def test_it_reads_models_again_without_a_lost_request(tmp_path: Path) -> None:
    file = save_add(tmp_path / "add.onnx")
    server = Server(str(file))
    command = [str(CLIENTS), str(SCRIPT), server.address, "asks_until_another_answers"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as client:
        assert client.stdout.readline() == "asked\n"
        save_add(tmp_path / "new.onnx", addend=5).rename(file)
        server.process.send_signal(signal.SIGHUP)
        said = client.stdout.read()
        assert client.wait(SECONDS) == 0, said
    assert server.end() == 0
    assert "penstock: SIGHUP: replaced\n" in server.errors


def test_many_clients_lose_nothing_while_models_are_read_again(tmp_path: Path) -> None:
    file = save_add(tmp_path / "add.onnx")
    server = Server(str(file))
    command = [str(CLIENTS), str(SCRIPT), server.address, "asks_through_reloads"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True) as client:
        assert client.stdout.readline() == "asked\n"
        for i in range(6):
            save_add(tmp_path / "new.onnx", addend=(5, 1)[i % 2]).rename(file)
            server.process.send_signal(signal.SIGHUP)
            server.wait_for("penstock: SIGHUP: replaced\n", i + 1)
        said, _ = client.communicate(timeout=SECONDS)
        assert client.returncode == 0, said
    assert server.end() == 0, server.errors


def test_sighup_tries_again_what_failed_to_load(tmp_path: Path) -> None:
    file = save_add(tmp_path / "add.onnx")
    server = Server(str(file), "--http", "127.0.0.1:0")
    address = server.http_address()

    def ask(method: str, path: str) -> int:
        connection = http.client.HTTPConnection(address, timeout=SECONDS)
        connection.request(method, path)
        return connection.getresponse().status

    def says_at_sighup(words: str) -> None:
        server.errors.clear()
        server.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + SECONDS
        while not server.errors:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert server.errors[0].startswith(f"penstock: SIGHUP: {words}"), server.errors

    assert ask("POST", "/v2/repository/models/add/unload") == 200
    says_at_sighup("nothing to replace: ")
    file.rename(tmp_path / "kept")
    assert ask("POST", "/v2/repository/models/add/load") != 200
    says_at_sighup("not replaced: model 'add' ")
    assert ask("GET", "/v2/health/ready") != 200
    (tmp_path / "kept").rename(file)
    says_at_sighup("replaced\n")
    assert ask("GET", "/v2/health/ready") == 200
    assert server.end() == 0


def test_the_access_log_has_a_line_for_each_call_and_each_request_of_a_stream(
    models: list[str], tmp_path: Path
) -> None:
    log = tmp_path / "access.jsonl"
    server = Server(models[0], "--access-log", str(log))
    ask(server, "is_logged")
    assert server.end() == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    told = [(line["method"], line["target"].rpartition("/")[2], line["status"], line.get("id")) for line in lines]
    expected = [  # The stream's second fails while the first is computed.
        ("unary", "ModelMetadata", 0, None),
        ("unary", "ModelInfer", 0, "one"),
        ("unary", "ModelInfer", 5, "two"),
        ("stream", "ModelStreamInfer", 0, "three"),
        ("stream", "ModelStreamInfer", 5, "four"),
        ("unary", "RepositoryModelLoad", 5, None),
    ]
    assert sorted(told, key=str) == sorted(expected, key=str)
    assert {line["protocol"] for line in lines} == {"grpc"}
    by_id = {line.get("id"): line for line in lines}
    one = by_id["one"]
    assert one["model"] == "add" and one["request_bytes"] > 32 and one["response_bytes"] > 64
    assert one["traceparent"] == "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    assert "unknown model" in by_id["two"]["error"]


def test_connections_are_bounded(models: list[str]) -> None:
    server = Server(models[0], "--max-connections", "2")
    ask(server, "is_refused_while_it_is_full")
    assert server.end() == 0


def test_it_serves_on_after_more_connections_than_descriptors(models: list[str]) -> None:
    server = Server(models[0], descriptors=200)
    ask(server, "outlives_a_flood")
    assert server.end() == 0


def test_memory_regions_are_for_clients_of_this_machine(models: list[str]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        try:
            found.connect(("192.0.2.1", 9))  # Nothing is sent: the system says which address it would be from.
        except OSError:
            pytest.skip("this machine has no address but its loopback one")
        host = found.getsockname()[0]
    if host.startswith("127."):
        pytest.skip("this machine has no address but its loopback one")
    server = Server(*models, "--http", "0.0.0.0:0", "--insecure", listen="0.0.0.0:0")
    grpc, http = (f"{host}:{address.rpartition(':')[2]}" for address in (server.address, server.http_address()))
    case = "is_kept_from_memory"
    here = f"127.0.0.1:{grpc.rpartition(':')[2]}"
    run_client("grpc_client.py", here, case, f"{grpc},{http}", case=case)
    assert server.end() == 0, server.errors


@pytest.mark.sweep(of=3)
def test_it_speaks_tls_and_asks_for_certificates(models: list[str], tmp_path: Path) -> None:
    make_certificates(tmp_path)
    own = ["--tls-certificate", f"{tmp_path}/localhost.pem", "--tls-key", f"{tmp_path}/localhost.key"]
    server = Server(models[0], *own)
    ask(server, "is_served_over_tls", str(tmp_path))
    ask(server, "is_refused_in_plain_text")
    assert server.end() == 0
    (tmp_path / "new").mkdir()
    make_certificates(tmp_path / "new")
    server = Server(models[0], *own)
    ask(server, "is_served_over_tls", str(tmp_path))
    for suffix in "key", "pem":
        shutil.copy(tmp_path / f"new/localhost.{suffix}", tmp_path / f"localhost.{suffix}")
    ask(server, "meets_another_certificate", str(tmp_path))
    assert server.end() == 0
    for suffix in "key", "pem":
        (tmp_path / f"localhost.{suffix}").unlink()
    make_certificates(tmp_path)
    server = Server(models[0], *own, "--tls-client-authority", f"{tmp_path}/ca.pem")
    ask(server, "is_served_with_a_certificate", str(tmp_path))
    ask(server, "is_refused_without_a_certificate", str(tmp_path))
    assert server.end() == 0


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder)
    return folder


@pytest.mark.parametrize("option", ["", "--tls-client-authority"])
def test_files_that_cannot_be_used_leave_the_old_ones_in_use(
    models: list[str], certificates: Path, tmp_path: Path, option: str
) -> None:
    shutil.copytree(certificates, tmp_path, dirs_exist_ok=True)
    own = ["--tls-certificate", f"{tmp_path}/localhost.pem", "--tls-key", f"{tmp_path}/localhost.key"]
    server = Server(models[0], *own, *([option, f"{tmp_path}/ca.pem"] if option else []))
    script = "is_served_with_a_certificate" if option else "is_served_over_tls"
    broken = {
        "localhost.pem": ["", "junk"],
        "localhost.key": ["", (tmp_path / "client.key").read_text()],
        "ca.pem": ["", "junk"] if option else [],
    }
    told = 0
    for name, texts in broken.items():
        good = (tmp_path / name).read_text()
        for text in texts:
            (tmp_path / name).write_text(text)
            end = time.monotonic() + SECONDS
            while len(server.errors) == told:  # It looks when a client connects, once a second.
                ask(server, script, str(certificates))
                assert time.monotonic() < end
            told = len(server.errors)
            assert "gRPC: the certificates read before still hold: " in server.errors[-1]
            assert f"'{tmp_path / name}': cannot be used" in server.errors[-1]
            (tmp_path / name).write_text(good)
            while len(server.errors) == told:
                ask(server, script, str(certificates))
                assert time.monotonic() < end
            told = len(server.errors)
            assert server.errors[-1].endswith("gRPC: certificates read again\n")
    assert server.end() == 0


@pytest.mark.parametrize(
    ("which", "text", "sentence"),
    [
        ("certificate", "", "'localhost.pem': cannot be used as a certificate in PEM (it is empty)"),
        ("certificate", "junk", "(it has no line '-----BEGIN ...CERTIFICATE-----')"),
        (
            "certificate",
            "trusted",
            "'localhost.pem': cannot be used as a certificate in PEM (it is a trusted certificate",
        ),
        ("key", "", "'localhost.key': cannot be used as the certificate's key in PEM (it is empty)"),
        ("key", "junk", "(it has no line '-----BEGIN ...PRIVATE KEY-----')"),
        (
            "key",
            "locked",
            "'localhost.key': cannot be used as the certificate's key in PEM (it is locked by a pass phrase",
        ),
        ("key", "another", "'localhost.key': cannot be used as the certificate's key in PEM (key values mismatch)"),
        ("client-authority", "absent", "'ca.pem': cannot be used as the certificate that signs clients' (No such file"),
        ("client-authority", "", "'ca.pem': cannot be used as the certificate that signs clients' (it is empty)"),
    ],
)
def test_files_of_tls_that_cannot_serve_are_refused_at_the_start(
    models: list[str], certificates: Path, tmp_path: Path, which: str, text: str, sentence: str
) -> None:
    shutil.copytree(certificates, tmp_path, dirs_exist_ok=True)
    files = {"certificate": "localhost.pem", "key": "localhost.key", "client-authority": "ca.pem"}
    bad = tmp_path / files[which]
    openssl = {
        "trusted": ["x509", "-trustout"],
        "locked": ["pkey", "-aes256", "-passout", "pass:secret"],
    }
    if text in openssl:
        made = subprocess.run(["openssl", *openssl[text], "-in", bad], check=True, capture_output=True)
        bad.write_bytes(made.stdout)
    elif text == "another":
        shutil.copy(tmp_path / "client.key", bad)
    elif text == "absent":
        bad.unlink()
    else:
        bad.write_text(text)
    given = [part for name, file in files.items() for part in (f"--tls-{name}", file)]
    command = [find_program(), "serve", models[0], "--listen", "127.0.0.1:0", *given]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1 and sentence in done.stderr


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--listen", "0.0.0.0:0"], "--listen: plain text would leave this machine at '0.0.0.0:0': "),
        (["--http", "0.0.0.0:0"], "--http: plain text would leave this machine at '0.0.0.0:0': "),
        (["--listen", "127.0.0.1:9", "--http", "127.0.0.1:9"], "--http: expected another port than --listen has"),
        (["--tls-certificate", "absent.pem", "--tls-key", "absent.key"], "--tls-certificate: file 'absent.pem'"),
        (["--tls-certificate", "/", "--tls-key", "/"], "--tls-certificate: file '/'"),  # A folder.
        (["--tls-key", "key.pem"], "--tls-certificate and --tls-key belong together"),
        (["x/y=model.onnx"], "without '/'"),
        (["m:x=model.onnx"], "expected a version"),
        (["absent.onnx"], "absent.onnx"),
        (["--trace", "/"], "--trace '/': cannot be written: it is a folder; give a file's name"),
        (["--trace", "/nowhere/trace.json"], "--trace '/nowhere/trace.json': cannot be written: No such file"),
        (["--access-log", "/"], "--access-log '/': cannot be written: it is a folder; give a file's name"),
        (["--tokens", "/"], "--tokens: file '/': expected a file of tokens, found a folder"),
        (
            ["--tokens", "none"],
            "--tokens: file 'none': cannot be read: No such file or directory; 'penstock token NAME >> FILE' makes one",
        ),
    ],
)
def test_it_says_what_is_wrong(models: list[str], arguments: list[str], error: str) -> None:
    command = [find_program(), "serve", models[0], *arguments]
    command += [] if "--listen" in arguments else ["--listen", "127.0.0.1:0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 1
    assert error in done.stderr


@pytest.mark.parametrize(
    ("option", "address", "error"),
    [
        ("--listen", "127.0.0.1:none", "found '127.0.0.1:none': its port 'none' is no number"),
        ("--listen", "nonsense", "found 'nonsense', which has no port; a socket's file is unix:PATH"),
        ("--listen", "8001", "for this machine alone write 127.0.0.1:8001; a socket's file is unix:PATH"),
        ("--http", "8000", "for this machine alone write 127.0.0.1:8000"),
        ("--http", "unix:/tmp/s", "found 'unix:/tmp/s'"),
    ],
)
def test_malformed_addresses_are_told_by_the_command_line(option: str, address: str, error: str) -> None:
    command = [find_program(), "serve", "absent.onnx", option, address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{option}: expected an address HOST:PORT" in done.stderr and error in done.stderr


@pytest.mark.parametrize("option", ["--listen", "--http"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_port_that_another_process_has_is_named(option: str, host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        given = {"--listen": "127.0.0.1:0", option: f"{host}:{port}"}
        # That there is no such model would be found later: a model may take minutes to load.
        command = [find_program(), "serve", "absent.onnx", *(word for pair in given.items() for word in pair)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{option}: " in done.stderr and f"'{host}:{port}'" in done.stderr
    assert f"another process has port {port} (Address already in use): give another port, or 0" in done.stderr


def test_a_sockets_file_is_taken_over_from_the_dead_alone(models: list[str], tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))  # Stays when it is closed.
    server = Server(models[0], listen=f"unix:{path}")
    try:
        command = [find_program(), "serve", models[0], "--listen", f"unix:{path}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert (done.returncode, done.stdout.count("gRPC on")) == (1, 0)
        assert f"--listen: 'unix:{path}' cannot be listened on: another process listens there already" in done.stderr
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
    finally:
        assert server.end() == 0
    assert not path.exists()


def test_a_socket_of_another_kind_that_is_in_use_stays(models: list[str], tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as used:
        used.bind(str(path))
        command = [find_program(), "serve", models[0], "--listen", f"unix:{path}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert (done.returncode, done.stdout.count("gRPC on")) == (1, 0)
        assert "another process listens there already" in done.stderr and path.is_socket()
