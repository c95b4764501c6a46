"""penstock plan: plans of planning problems, their proof, their words."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import xml.etree.ElementTree as xml

import pytest

FIELDS = [
    "period",
    "latency",
    "lower_bound",
    "gap",
    "proved",
    "seconds",
    "binding",
    "runner_up",
    "baselines",
    "baselines_why_not",
    "stages",
    "devices",
    "notes",
    "interrupted",
]


def node(number, time_, **more):
    fields = {"id": number, "supportedOnFpga": 1, "isBackwardNode": 0, "size": 10}
    return fields | {"cpuLatency": 10 * time_, "fpgaLatency": time_} | more


def chain_of(times, cost=1, **more):
    """Nodes in a row, each edge of the same cost."""
    edges = [{"sourceId": i, "destId": i + 1, "cost": cost} for i in range(len(times) - 1)]
    problem = {"maxSizePerFPGA": 100, "maxFPGAs": 2, "maxCPUs": 0, "edges": edges}
    return problem | {"nodes": [node(i, time_) for i, time_ in enumerate(times)]} | more


@pytest.fixture
def workload(tmp_path):
    """Writes a problem into a file."""

    def write(problem):
        file = tmp_path / "workload.json"
        file.write_text(problem if isinstance(problem, str) else json.dumps(problem))
        return file

    return write


def test_json_has_the_fields_and_a_proved_optimum(well, workload):
    plan = well("plan", "--workload", workload(chain_of([4, 3, 2, 5])), "--json").json
    assert list(plan) == FIELDS
    assert plan["period"] == 8  # {4, 3} and {2, 5}, each with a transfer of 1
    assert plan["latency"] == 16
    assert plan["proved"]
    assert plan["lower_bound"] == pytest.approx(8, rel=1e-6)
    assert plan["gap"] <= 1e-6
    assert plan["runner_up"]["period"] >= 8
    assert sorted(name for stage in plan["runner_up"]["stages"] for name in stage["devices"]) == [
        "accelerator:0",
        "accelerator:1",
    ]
    assert sorted(id_ for stage in plan["runner_up"]["stages"] for id_ in stage["nodes"]) == [0, 1, 2, 3]
    assert [len(stage["nodes"]) for stage in plan["stages"]] == [2, 2]
    assert plan["stages"][0]["nodes"][0] == 0  # In the order that a frame meets them.
    assert not plan["interrupted"]
    assert plan["baselines"]["single_device"] == 14
    assert plan["baselines"]["replicate_all"] == 7
    assert sorted(device["segments"] for device in plan["devices"]) == [[[0, 1]], [[2, 3]]]
    for device in plan["devices"]:
        assert (device["type"], device["load"], device["memory"]) == ("accelerator", 8, 20)


def test_replicas_must_be_allowed(well, workload):
    plan = well("plan", "--workload", workload(chain_of([4, 3, 2, 5])), "--replicas", "--json").json
    assert plan["period"] == 7
    assert plan["devices"][0]["segments"] == plan["devices"][1]["segments"] == [[0, 1, 2, 3]]


def test_several_segments_on_a_device(well, workload):
    file = workload(chain_of([3, 1, 1, 3], cost=0))
    assert well("plan", "--workload", file, "--json").json["period"] == 4
    longer = workload(chain_of([3, 2, 4, 3], cost=0))
    assert well("plan", "--workload", longer, "--json").json["period"] == 7
    found = well("plan", "--workload", longer, "--segments-per-device", 2, "--deadline", 2, "--json").json
    assert found["period"] == 6
    assert sorted(len(device["segments"]) for device in found["devices"]) in ([1, 2], [2, 2])


def test_nodes_of_a_colour_share_the_device_but_not_the_segment(well, workload):
    problem = chain_of([3, 3, 3], cost=0.1)
    for number in (0, 2):
        problem["nodes"][number]["colorClass"] = 1
    file = workload(problem)
    assert well("plan", "--workload", file, "--json").json["period"] == 9
    plan = well("plan", "--workload", file, "--segments-per-device", 2, "--json").json
    assert plan["period"] == pytest.approx(6.2)
    assert plan["proved"]
    assert sorted(device["segments"] for device in plan["devices"]) == [[[0], [2]], [[1]]]


def idle_problem(memory):
    problem = chain_of([1, 1, 0], maxSizePerFPGA=memory)
    problem["edges"][0]["cost"] = 100
    problem["edges"][1]["cost"] = 0
    return problem


def test_nodes_without_time_stay_where_memory_is_scarce_and_it_is_said(well, workload, tmp_path):
    split = tmp_path / "split.json"
    split.write_text(json.dumps({"fpgas": [{"nodes": [0, 1]}, {"nodes": [2]}]}))
    scarce = workload(idle_problem(20))
    kept = well("plan", "--workload", scarce, "--json")
    assert kept.json["period"] == 101
    assert "1 node(s) without time stay with the only node" in kept.err
    assert "--free-idle" in kept.err
    assert "1 node(s) without time stay" in "".join(kept.json["notes"])
    proof = (
        "no other plan is cheaper that keeps nodes without time with their only neighbour (--free-idle lets them go)"
    )
    assert proof in well("plan", "--workload", scarce).out
    free = well("plan", "--workload", scarce, "--free-idle", "--split", split, "--json")
    assert (free.json["period"], free.json["proved"], free.err) == (2, True, "")
    enough = well("plan", "--workload", workload(idle_problem(30)), "--split", split, "--json")
    assert (enough.json["period"], enough.json["proved"], enough.err) == (2, True, "")
    assert free.json["notes"] == enough.json["notes"] == []


def test_nodes_without_time_part_where_there_is_no_plan_with_them_together(well, penstock, workload):
    problem = chain_of([2, 3, 2, 3, 0, 0], cost=0.1, maxSizePerFPGA=10, maxFPGAs=3)
    problem["edges"] = [{"sourceId": a, "destId": b, "cost": 0.1} for a, b in ((0, 1), (1, 2), (2, 3), (4, 1), (5, 3))]
    for fields, size in zip(problem["nodes"], [3, 2, 4, 4, 8, 3], strict=True):
        fields["size"] = size
    plan = well("plan", "--workload", workload(problem), "--json")  # 3, 2 + 8, 4, 4 + 3 bytes need four devices.
    assert plan.json["period"] == pytest.approx(5.2)
    assert plan.json["proved"]
    (note,) = plan.json["notes"]
    assert "with them together there is no plan" in note
    assert note in plan.err
    assert "is cheaper\n" in well("plan", "--workload", workload(problem)).out
    problem["maxFPGAs"] = 2  # 24 bytes: no plan at all.
    outcome = penstock("plan", "--workload", workload(problem))
    assert "need 24 bytes together, more than 2 'accelerator' of 10 bytes" in outcome.error
    problem["maxFPGAs"] = 3
    for fields, size in zip(problem["nodes"], [6, 6, 6, 6, 1, 1], strict=True):
        fields["size"] = size
    outcome = penstock("plan", "--workload", workload(problem))
    assert "no plan exists: " in outcome.error


def test_options_change_the_problem(well, workload):
    file = workload(chain_of([4, 3, 2, 5]))
    assert well("plan", "--workload", file, "--devices", 1, "--json").json["period"] == 14
    assert well("plan", "--workload", file, "--devices", 4, "--communication-factor", 0, "--json").json["period"] == 5
    with_cpu = well("plan", "--workload", file, "--devices", 0, "--cpus", 1, "--json").json
    assert with_cpu["period"] == 140
    assert with_cpu["devices"][0]["type"] == "cpu"


def test_the_latency_goal_and_the_latency_cap(well, workload):
    file = workload(chain_of([4, 3, 2, 5]))
    fast = well("plan", "--workload", file, "--goal", "latency", "--json").json
    assert fast["latency"] == 14
    assert fast["proved"]
    capped = well("plan", "--workload", file, "--latency-cap", 15, "--json").json
    assert capped["latency"] == 14
    assert capped["period"] == 14


def test_a_cap_that_only_cores_without_limit_reach_is_explained(well, penstock, workload):
    """Three branches on cores, of which the throughput has one."""
    problem = chain_of([9, 9, 9], maxFPGAs=0, maxCPUs=1)
    problem["edges"] = []
    file = workload(problem)
    fast = well("plan", "--workload", file, "--goal", "latency")
    assert "period     0 of the devices; 'cpu' is without limit here" in fast.out
    assert "cpu        -      270" in fast.out
    plan = well("plan", "--workload", file, "--goal", "latency", "--json").json
    assert (plan["latency"], plan["devices"][0]["load"]) == (90, None)
    refused = penstock("plan", "--workload", file, "--latency-cap", 90)
    assert refused.code == 1
    assert "has a latency of at most 90; a latency that --goal latency finds may be out of reach" in refused.error
    assert "'cpu' is without limit, and here there are 1" in refused.error


@pytest.mark.parametrize("option", ["--svg", "--devices"])
def test_an_empty_option_is_refused(penstock, workload, option):
    outcome = penstock("plan", "--workload", workload(chain_of([1, 1])), option, "")
    assert outcome.code == 2
    assert f"{option}: expected" in outcome.err
    assert "found ''" in outcome.err


def test_a_workload_may_name_types_of_its_own(well, penstock, workload):
    problem = chain_of([1, 1, 1], cost=1)
    problem["deviceTypes"] = [{"name": "fast", "count": 1, "size": 20}, {"name": "slow", "count": 2}]
    for times, fields in zip([[2, None], [2, 9], [7, 4]], problem["nodes"], strict=True):
        fields["latencies"] = times
    file = workload(problem)
    plan = well("plan", "--workload", file, "--json").json
    assert plan["period"] == 5  # {0, 1} and {2}
    assert plan["devices"][0]["segments"] == [[0, 1]]
    assert [device["type"] for device in plan["devices"]] == ["fast", "slow", "slow"]
    refused = penstock("plan", "--workload", file, "--devices", 3)
    assert "names its devices in 'deviceTypes'" in refused.error
    problem["nodes"][1]["latencies"] = [2]
    assert "node 1: 'latencies': expected 2 times" in penstock("plan", "--workload", workload(problem)).error


def test_a_given_split_is_a_baseline_that_is_never_beaten(well, workload, tmp_path):
    split = tmp_path / "split.json"
    split.write_text(json.dumps({"fpgas": [{"nodes": [0]}, {"nodes": [1, 2, 3]}]}))
    plan = well("plan", "--workload", workload(chain_of([4, 3, 2, 5])), "--split", split, "--json").json
    assert plan["baselines"]["user"] == 11
    assert plan["period"] == 8


def test_text_tells_plan_bound_and_what_binds(well, workload):
    out = well("plan", "--workload", workload(chain_of([4, 3, 2, 5])), "--what-if", "--pareto").out
    words_of_it = ["period     8", "latency    16", "proved", "bound by   compute of device", "accelerator:1"]
    for words in [*words_of_it, "one more accelerator: 7 (-12.5 %), proved", "none is better"]:
        assert words in out


def test_what_if_and_the_pareto_front_are_in_the_json(well, workload):
    plan = well("plan", "--workload", workload(chain_of([4, 3, 2, 5])), "--what-if", "--pareto", "--json").json
    changes = {item["change"]: item["cost"] for item in plan["what_if"]}
    assert changes["one more accelerator"] < 8
    assert changes["half the memory"] == 8
    more = plan["what_if"][0]
    assert (more["proved"], more["certain_gain"]) == (True, True)
    assert more["gap"] <= 1e-6
    front = [(point["period"], point["latency"], point["devices"]) for point in plan["pareto"]]
    assert front == [(8, 16, 2), (14, 14, 1)]
    assert all(point["proved"] and point["lower_bound"] == pytest.approx(point["period"]) for point in plan["pareto"])


def test_the_picture_is_svg_with_a_dot_for_each_group(well, workload, tmp_path):
    picture = tmp_path / "plan.svg"
    well("plan", "--workload", workload(chain_of([4, 3, 2, 5])), "--svg", picture)
    root = xml.parse(picture).getroot()
    assert root.tag.endswith("svg")
    assert len(list(root.iter("{http://www.w3.org/2000/svg}circle"))) == 4
    assert "bound" in {line.get("class") for line in root.iter("{http://www.w3.org/2000/svg}line")}


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        ("{", "not JSON"),
        ('{"maxFPGAs": NaN}', "not JSON"),
        ('{"maxFPGAs": 1e999}', "a number is too large: '1e999'"),
        (chain_of([1, 1], nodes=[node(0, 1), node(1, 1, colorClass=2**63)]), "'colorClass': expected a whole number"),
        (chain_of([]), "'nodes' is empty"),
        (chain_of([1, -2]), "node 1: 'cpuLatency': expected 0 or more, found -20"),
        (chain_of([1, 1], maxSizePerFPGA=5), "needs 10 bytes, more than any device that supports it has (5)"),
        (chain_of([1, 1], nodes=[node(0, 1), node(0, 1)]), "node 0: its id is used twice"),
        (chain_of([1, 1], edges=[{"sourceId": 0, "destId": 7, "cost": 1}]), "there is no node 7"),
        (
            chain_of([1, 1], edges=[{"sourceId": 0, "destId": 1, "cost": 1}, {"sourceId": 1, "destId": 0, "cost": 1}]),
            "the graph is cyclic: node 0",
        ),
        (
            chain_of(
                [1, 1, 1], edges=[{"sourceId": 0, "destId": 1, "cost": 1}, {"sourceId": 0, "destId": 2, "cost": 2}]
            ),
            "node 0: its out-edges differ in 'cost', 1 and 2",
        ),
        (chain_of([1, 1], nodes=[node(0, 1), node(1, 1, supportedOnFpga=0)]), "node 1: no accelerator supports it"),
        (
            chain_of([1, 1, 1], maxSizePerFPGA=14, maxFPGAs=2),
            "need 30 bytes together, more than 2 'accelerator' of 14 bytes (28 together); give",
        ),
    ],
)
def test_bad_input_is_one_sentence_that_names_the_culprit(penstock, workload, problem, words):
    outcome = penstock("plan", "--workload", workload(problem))
    assert outcome.code == 1, outcome
    assert words in outcome.error
    assert outcome.out == ""


@pytest.mark.parametrize(
    ("split", "words"),
    [
        ({"fpgas": [{"nodes": [0, 2**32 + 1]}]}, "whole numbers up to 2147483647, found 4294967297"),
        ({"fpgas": [{"nodes": [0, 2**64 - 1]}]}, "found 18446744073709551615"),
        ({"fpgas": [{"nodes": [0, 0]}, {"nodes": [1]}]}, "node 0 is in one set twice"),
        ({"fpgas": [{"nodes": [0]}], "cpus": [{"nodes": [1]}]}, "no device for the sets of 'cpus'"),
    ],
)
def test_a_bad_split_is_one_sentence(penstock, workload, tmp_path, split, words):
    file = tmp_path / "split.json"
    file.write_text(json.dumps(split))
    outcome = penstock("plan", "--workload", workload(chain_of([1, 1], maxCPUs=0)), "--split", file)
    assert outcome.code == 1, outcome
    assert words in outcome.error


def test_memory_that_cannot_be_divided_is_said(penstock, workload):
    outcome = penstock("plan", "--workload", workload(chain_of([1, 1, 1], maxSizePerFPGA=19, maxFPGAs=2)))
    assert outcome.code == 1, outcome
    words = "no plan exists: 3 groups of 30 bytes together (the largest, 'node 0', of 10) cannot be divided among 2"
    assert words in outcome.error
    assert "'accelerator' of 19 bytes (38 together); give each more memory, or add devices" in outcome.error


def test_a_missing_file_is_named(penstock, tmp_path):
    outcome = penstock("plan", "--workload", tmp_path / "absent.json")
    assert outcome.code == 1, outcome
    assert "absent.json" in outcome.error


def test_ctrl_c_keeps_the_best_so_far(program, workload):
    times = [1 + (i * 7919) % 97 / 10 for i in range(150)]
    problem = chain_of(times, maxSizePerFPGA=10_000, maxFPGAs=5)
    problem["edges"] = [
        {"sourceId": i, "destId": j, "cost": 1 + i % 5} for i in range(150) for j in {i + 4, i + 7} if j < 150
    ]
    command = [
        program,
        "plan",
        "--workload",
        workload(problem),
        "--segments-per-device",
        "9",
        "--deadline",
        "3600",
        "--what-if",
        "--pareto",
    ]
    ours, theirs = pty.openpty()  # The bounds are shown there only.
    with subprocess.Popen([*map(str, command), "--json"], stdout=subprocess.PIPE, stderr=theirs, text=True) as running:
        os.close(theirs)
        shown = b""
        while b"plan  period " not in shown:
            shown += os.read(ours, 4096)
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=60)
    os.close(ours)
    assert running.returncode == 0
    plan = json.loads(out)
    assert plan["period"] >= plan["lower_bound"] > 0
    assert plan["interrupted"]
    assert plan["what_if"] == []
    for point in plan["pareto"]:  # What is known of the plan is known of the list.
        assert point["lower_bound"] == pytest.approx(min(plan["lower_bound"], point["period"]))


def test_a_terminal_shows_the_bounds_while_the_search_goes_on(program, well, workload):
    command = ["plan", "--workload", workload(chain_of([4, 3, 2, 5]))]
    assert "at least" not in well(*command).err
    ours, theirs = pty.openpty()
    with subprocess.Popen([program, *map(str, command)], stdout=subprocess.PIPE, stderr=theirs) as running:
        running.communicate(timeout=60)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # The end of a terminal.
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    assert b"plan  period 8, at least" in shown
    assert shown.endswith(b"\r\x1b[K")
