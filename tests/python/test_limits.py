"""Limits of threads and memory: what does not fit is an error, and the process goes on."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import penstock

Run = Callable[..., str]

# While it is in force no thread can be made, for root neither: none has room for its stack.
START = """
import asyncio, contextlib, ctypes, faulthandler, os, sys, threading, weakref
import numpy as np, penstock
faulthandler.dump_traceback_later(280, exit=True)
x = np.zeros((1, 4), np.float32)
libc = ctypes.CDLL(None)
@contextlib.contextmanager
def no_more_threads():
    before, huge = (ctypes.create_string_buffer(64) for _ in range(2))  # sizeof(pthread_attr_t) is 56.
    for attributes in before, huge:
        assert libc.pthread_getattr_default_np(attributes) == 0
    assert libc.pthread_attr_setstacksize(huge, ctypes.c_size_t(1 << 46)) == 0
    assert libc.pthread_setattr_default_np(huge) == 0
    try:
        yield
    finally:
        assert libc.pthread_setattr_default_np(before) == 0
def told(call):
    try:
        with no_more_threads():
            call()
    except penstock.ResourceExhausted as error:
        print(error)
    else:
        print("not refused")
"""


def check_refused(out: str) -> None:
    assert out.startswith("no thread could be started: "), out
    assert out.endswith("; raise the limit of threads (ulimit -u) or of memory (ulimit -v), or run less at once\n"), out
    assert out.count("\n") == 1


def test_a_pipeline_without_a_thread_to_be_made_on_is_refused(run_script: Run, model: Path) -> None:
    text = """
told(lambda: penstock.split(sys.argv[1]))
assert penstock.split(sys.argv[1]).run(None, x)[0][0, 0] == 1
"""
    check_refused(run_script(START + text, model))


@pytest.mark.parametrize(
    "call",
    [
        "pipeline.submit(x)",
        "next(pipeline.stream([x], threaded=True))",
        "asyncio.run(asyncio.wait_for(anext(pipeline.astream([x])), 60))",
        "pipeline.serve_page()",
        "pipeline.serve_metrics()",
        "next(iter(penstock.io.latest([x])))",
    ],
)
def test_a_thread_of_the_packages_own_that_is_refused_is_an_error(run_script: Run, model: Path, call: str) -> None:
    text = f"""
with penstock.split(sys.argv[1]) as pipeline:
    told(lambda: {call})
    assert pipeline.submit(x).result()["z"][0, 0] == 1
"""
    check_refused(run_script(START + text, model))


def test_a_server_without_a_thread_to_be_started_on_is_refused(run_script: Run, model: Path) -> None:
    text = """
told(lambda: penstock.serve(sys.argv[1], listen="127.0.0.1:0"))
penstock.serve(sys.argv[1], listen="127.0.0.1:0").close()
"""
    check_refused(run_script(START + text, model))


def test_a_pipeline_that_its_function_lets_go_ends_without_a_thread_of_its_own(run_script: Run) -> None:
    text = """
box, gone = [], threading.Event()
def call(x):
    box.clear()
    gone.set()
    return x
app = penstock.App()
app.input("x")
app.function("f", call, {"x": "f32[1,4]"}, {"y": "f32[1,4]"}, reads="x")
app.output("y", "f.y")
box.append(app.start())
core = weakref.ref(box[0]._core)
with no_more_threads():
    box[0].push(x)
    assert gone.wait(60)
    while core() is not None: pass
print("let go")
"""
    assert run_script(START + text) == "let go\n"


@pytest.mark.parametrize("mebibytes", [0, 9, 16, 33, 45, 64, 96, 112, 128, 160, 256, 384, 512])
def test_a_limit_of_memory_is_an_error_or_enough(
    run_script: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mebibytes: int
) -> None:
    package = tmp_path / "line.penstock"
    penstock.split(model, output=package).shut_down()
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")  # numpy's own threads take memory for each CPU.
    text = """
import resource, sys
import numpy as np, penstock
x = np.zeros((1, 4), np.float32)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
_, hard = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[2]) * 2**20, hard))
try:
    with penstock.load(sys.argv[1]) as pipeline:
        for _ in range(20):
            assert pipeline.run(None, x)[0][0, 0] == 1
except (penstock.PenstockError, MemoryError) as error:
    print(type(error).__name__)
else:
    print("ran")
"""
    assert run_script(text, package, str(mebibytes)) in (
        "ran\n",
        "ResourceExhausted\n",
        "Unavailable\n",
        "MemoryError\n",
    )


# Less than a new thread may need.
LITTLE_MEMORY = """
import resource, sys
import numpy as np, penstock, penstock.io
x = np.zeros((1, 4), np.float32)
def told_without_memory(call):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + 16 * 2**20, before[1]))
    try:
        call()
    except penstock.ResourceExhausted as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_AS, before)
"""


def test_a_callback_that_may_find_no_memory_for_its_thread_is_refused(run_script: Run, model: Path) -> None:
    """Python would end the process on that thread."""
    text = """
import queue
given = queue.SimpleQueue()
with penstock.split(sys.argv[1]) as pipeline:
    pipeline.run(None, x)
    told_without_memory(lambda: pipeline.push(x, done=given.put))
    assert pipeline.in_flight == 0
    pipeline.push(x, done=given.put)
    assert given.get(timeout=60).ok
"""
    assert run_script(LITTLE_MEMORY + text, model) == (
        "out of memory: expected 32 MiB more; raise the limit of memory (ulimit -v), or run less at once\n"
    )


@pytest.mark.parametrize(
    "call", ["pipeline.submit(x)", "next(pipeline.stream([x], threaded=True))", "next(iter(penstock.io.latest([x])))"]
)
def test_a_thread_that_may_find_no_memory_is_not_started(run_script: Run, model: Path, call: str) -> None:
    """Python would wait for ever for the thread to say that it runs."""
    text = f"""
with penstock.split(sys.argv[1]) as pipeline:
    pipeline.run(None, x)
    told_without_memory(lambda: {call})
    assert pipeline.submit(x).result(60)["z"][0, 0] == 1
"""
    assert run_script(LITTLE_MEMORY + text, model) == (
        "out of memory: expected 32 MiB more; raise the limit of memory (ulimit -v), or run less at once\n"
    )


# In malloc's place: the k-th allocation fails, of those of `least` bytes or more on any thread, or of all on this one.
# Where a smaller one than 128 bytes is refused to ONNX Runtime while it runs a session, it crashes by itself, freeing
# what it never got. Pieces of up to 512 bytes Python and nanobind take from Python's own blocks, not from malloc.
REFUSES = """
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
static atomic_long until = -1;
static __thread long until_here __attribute__((tls_model("initial-exec"))) = -1;
static size_t least = 128;
void refuse(long k) { until = k; }
void refuse_any_size(void) { least = 0; }
void refuse_here(long k) { until_here = k; }
long left(void) { return until; }
long left_here(void) { return until_here; }
static int refused_here(void) { return until_here >= 0 && until_here-- == 0; }
static int refused(size_t size) {
  const int of_all = size >= least && until >= 0 && atomic_fetch_sub(&until, 1) == 0;
  if (!refused_here() && !of_all) return 0;
  errno = ENOMEM;
  return 1;
}
void* malloc(size_t size) { return refused(size) ? NULL : __libc_malloc(size); }
void* calloc(size_t count, size_t size) { return refused(count * size) ? NULL : __libc_calloc(count, size); }
void* realloc(void* old, size_t size) { return refused(size) ? NULL : __libc_realloc(old, size); }
void* memalign(size_t alignment, size_t size) { return refused(size) ? NULL : __libc_memalign(alignment, size); }
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** out, size_t alignment, size_t size) {
  *out = memalign(alignment, size);
  return *out == NULL ? ENOMEM : 0;
}
"""


@pytest.fixture(scope="module")
def refuses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler here")
    folder = tmp_path_factory.mktemp("refuses")
    (folder / "refuses.c").write_text(REFUSES)
    command = ["cc", "-shared", "-fPIC", "refuses.c", "-o", "librefuses.so"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"needs glibc: {done.stderr}")
    return folder / "librefuses.so"


@pytest.mark.parametrize("call", ["run", "push_pop", "submit", "stream"])
@pytest.mark.parametrize("what", ["function", "network"])
def test_the_kth_allocation_fails_for_every_k(
    run_script: Run,
    model: Path,
    tmp_path: Path,
    refuses: Path,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    call: str,
) -> None:
    package = tmp_path / "line.penstock"
    penstock.split(model, output=package, cuts=["increment"]).shut_down()
    monkeypatch.setenv("LD_PRELOAD", str(refuses))
    text = """
import ctypes, faulthandler, sys
import numpy as np, penstock
faulthandler.dump_traceback_later(280, exit=True)
package, what, call, library = sys.argv[1:]
refusal, x = ctypes.CDLL(library), np.ones((1, 4), np.float32)
if what == "function" and call in ("run", "push_pop"):
    refusal.refuse_any_size()  # Else Python itself finds no memory for a lock, say.
def make():
    if what == "network": return penstock.load(package)
    app = penstock.App()
    app.input("x")
    app.function("f", lambda x: 2 * x, {"x": "f32[1,4]"}, {"z": "f32[1,4]"}, reads="x")
    app.output("z", "f.z")
    return app.start()
def push_pop():
    pipeline.push(x)
    return pipeline.pop()["z"]
calls = {
    "run": lambda: pipeline.run(None, x)[0],
    "push_pop": push_pop,
    "submit": lambda: pipeline.submit(x).result(60)["z"],
    "stream": lambda: [frame["z"] for frame in pipeline.stream([x, x])][-1],
}
pipeline = make()
right = pipeline.run(None, x)[0].copy()
k = refused = 0
while True:
    refusal.refuse(ctypes.c_long(k))
    try:
        made = calls[call]()
    except (penstock.PenstockError, MemoryError) as error:
        made = error.with_traceback(None)
    reached = refusal.left() < 0
    refusal.refuse(ctypes.c_long(-1))
    if isinstance(made, Exception): refused += 1
    else: assert np.array_equal(made, right), k
    while pipeline.in_flight: pipeline.pop()  # Where a push was well, and what followed was not.
    if not reached: break
    k += 1
assert np.array_equal(pipeline.run(None, x)[0], right)
print("refused" if refused else "never")
"""
    assert run_script(text, package, what, call, refuses) == "refused\n"


def test_objects_that_are_held_find_their_place_whatever_is_refused(
    run_script: Run, model: Path, tmp_path: Path, refuses: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table in which nanobind lists its objects grows with those that are held."""
    package = tmp_path / "line.penstock"
    penstock.split(model, output=package).shut_down()
    monkeypatch.setenv("LD_PRELOAD", str(refuses))
    text = """
import ctypes, sys, time
import numpy as np, penstock
package, library = sys.argv[1:]
refusal, x, held = ctypes.CDLL(library), np.ones((1, 4), np.float32), []
pipeline = penstock.load(package)
k = 0
while len(held) < 100:
    if not pipeline.in_flight: pipeline.push(x)
    done = lambda: pipeline.stats()["stages"][-1]["frames"] == pipeline.stats()["pushed"]
    while not done(): time.sleep(0.001)  # Then only this thread asks for memory.
    refusal.refuse(ctypes.c_long(k))
    try: held.append(pipeline.pop())
    except (penstock.PenstockError, MemoryError): k += 1
    else: k = 0
    refusal.refuse(ctypes.c_long(-1))
print("held")
"""
    assert run_script(text, package, refuses) == "held\n"


APP = "penstock_app: 1\ninputs: {x: any}\nnodes: {f: {function: f, inputs: {x: x}}}\noutputs: {z: f.z}\n"
ASK_FOR_MEMORY = ["push", "call_back", "pop", "drain", "stats", "memory"]
ENDS = ["shut_down", "del"]  # Where all goes well they ask for none.


@pytest.mark.parametrize("late", ["", "late"])
@pytest.mark.parametrize("call", [*ASK_FOR_MEMORY, *ENDS])
def test_no_allocation_of_the_calling_thread_ends_the_process_where_it_is_refused(
    run_script: Run, tmp_path: Path, refuses: Path, monkeypatch: pytest.MonkeyPatch, call: str, late: str
) -> None:
    """Of any size, the k-th for every k; ``late`` where a stage's call is in progress meanwhile. The package is read
    where it lies, so that no temporary folder is removed with the pipeline."""
    (tmp_path / "app.yaml").write_text(APP)
    monkeypatch.setenv("LD_PRELOAD", str(refuses))
    text = """
import ctypes, faulthandler, os, sys, time, warnings
import numpy as np, penstock
faulthandler.dump_traceback_later(280, exit=True)
call, late, folder, library = sys.argv[1:]
warnings.simplefilter("ignore")
refusal, never = ctypes.CDLL(library), ctypes.c_long(-1)
refuse = refusal.refuse_here
quick = np.array([[1, 0, 2, 3]], np.float32)
pushed = np.array([[1, 0.12 if late else 0, 2, 3]], np.float32)
def double(x):
    time.sleep(float(x[0, 1]))
    return 2 * x
double = penstock.Function("f", double, {"x": "f32[1,4]"}, {"z": "f32[1,4]"})
with penstock.App.read(folder + "/app.yaml", [double]).start(output=folder + "/package"): pass
def load():
    return penstock.load(folder + "/package", functions=[double])
calls = {
    "push": lambda: pipeline.push(quick),
    "call_back": lambda: pipeline.push(quick, done=lambda frame: None),
    "pop": lambda: pipeline.pop(),
    "drain": lambda: pipeline.drain(),
    "stats": lambda: pipeline.stats(),
    "memory": lambda: pipeline.memory_bytes,
    "shut_down": lambda: pipeline.shut_down(timeout=0.03),
}
def threads():
    return len(os.listdir("/proc/self/task"))
before = threads()
pipeline = None
k, reached, missed = -1, 0, 0  # The first time nothing is refused: the C library ends the process where a thread first
while missed < 10:             # uses a library's own variables and finds no memory for them.
    if pipeline is None: pipeline = load()
    this = ctypes.c_long(k)
    pipeline.push(pushed)
    if not late: time.sleep(0.005)
    try:
        if call == "del":
            refuse(this)
            del pipeline
            pipeline = None
        else:
            refuse(this)
            calls[call]()
    except (penstock.PenstockError, MemoryError): pass
    came = refusal.left_here() < 0
    refuse(never)
    k, reached, missed = k + 1, reached + came, 0 if came else missed + 1
    if call == "shut_down": pipeline = None
    if pipeline is None: continue
    pipeline.drain()
    while pipeline.in_flight: pipeline.pop(timeout=10)
    assert np.array_equal(pipeline.run(None, quick)[0], 2 * quick), k
pipeline = None
while threads() > before: time.sleep(0.01)
print("refused" if reached > 1 else "never", reached)
"""
    told = run_script(text, call, late, tmp_path, refuses)
    assert told.startswith("refused") or (call in ENDS and told.startswith("never"))


def test_a_pipeline_that_its_function_lets_go_ends_whatever_is_refused(
    run_script: Run, tmp_path: Path, refuses: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app.yaml").write_text(APP)
    monkeypatch.setenv("LD_PRELOAD", str(refuses))
    text = """
import ctypes, faulthandler, os, sys, threading, warnings, weakref
import numpy as np, penstock
faulthandler.dump_traceback_later(280, exit=True)
folder, library = sys.argv[1:]
refusal, never = ctypes.CDLL(library), ctypes.c_long(-1)
x, box, came = np.ones((1, 4), np.float32), [], []
def call(x):
    if not box: return x
    this = ctypes.c_long(k)
    refusal.refuse_here(this)
    box.clear()
    came.append(refusal.left_here() < 0)
    refusal.refuse_here(never)
    gone.set()
    return x
f = penstock.Function("f", call, {"x": "f32[1,4]"}, {"z": "f32[1,4]"})
with penstock.App.read(folder + "/app.yaml", [f]).start(output=folder + "/package"): pass
k = -1
while len(came) < 11 or True in came[-10:]:
    gone = threading.Event()
    pipeline = penstock.load(folder + "/package", functions=[f])
    pipeline.run(None, x)
    core = weakref.ref(pipeline._core)
    box.append(pipeline)
    box[0].push(x)
    del pipeline
    assert gone.wait(60)
    while core() is not None: pass
    k += 1
print("let go" if True in came[1:] else "never")
"""
    assert run_script(text, tmp_path, refuses) == "let go\n"
