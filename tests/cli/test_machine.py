"""penstock devices, penstock backends."""

import os
import sys

import pytest


def test_devices_shows_the_inherited_cpuset(well):
    shown = well("devices", "--json").json
    assert shown["cpuset"] == sorted(os.sched_getaffinity(0))
    assert {cpu["number"] for cpu in shown["cpus"]} >= set(shown["cpuset"])
    assert shown["memory_bytes"] > 0
    assert shown["fingerprint"]


def test_devices_text_names_each_cpu_as_a_device(well, cpu):
    assert f"cpu:{cpu}" in well("devices").out


def test_devices_tells_the_quota_of_its_control_group(within_quota):
    assert within_quota(0.5, "devices", "--json").json["cpu_quota"] == 0.5
    assert "the time of 0.5 CPUs (cgroup quota)" in within_quota(0.5, "devices").out


@pytest.mark.sweep(of=3)
def test_peaks_are_of_one_cpu_and_of_all(well, tmp_path):
    own = {"PENSTOCK_COSTS": str(tmp_path / "costs.db")}
    peaks = well("devices", "--peaks", "--json", env=own).json["peaks"]
    count = len(os.sched_getaffinity(0))
    assert len(peaks) >= min(count, 2)
    for peak in peaks:
        assert all(width["flops_per_second"] > 0 for width in peak["fp32"])
        assert peak["reading"][-1]["name"] == "memory" and peak["reading"][-1]["bytes_per_second"] > 0
    assert well("devices", "--peaks", "--json", env=own).json["peaks"] == peaks  # From the database.
    assert well("devices", "--peaks", "--refresh", "--json", env=own).json["peaks"] != peaks
    shown = well("devices", "--peaks", env=own).out
    assert "reading from memory" in shown and "GFLOP/s" in shown
    assert "fp32" in well("costs", "list", env=own).out


MEASURES_UNTIL_INTERRUPTED = """
import json, os, signal
report = dict.fromkeys("id seconds low high runs neighbours bytes_per_second code".split(), 0)
os.write(0, json.dumps(report | {"event": "ready", "phase": "", "message": ""}).encode() + b"\\n")
os.read(0, 1)  # It is asked for peaks.
os.kill(os.getppid(), signal.SIGINT)
while os.read(0, 4096):
    pass
"""


@pytest.mark.parametrize("command", [["devices", "--peaks"], ["show", "chain.onnx", "--costs"]])
def test_an_interrupt_while_peaks_are_measured_leaves_no_temporary_folder(penstock, chain, tmp_path, command):
    measure = tmp_path / "measure"
    measure.write_text(f"#!{sys.executable}\n{MEASURES_UNTIL_INTERRUPTED}")
    measure.chmod(0o700)
    (tmp_path / "temporary").mkdir()
    own = {"PENSTOCK_COSTS": str(tmp_path / "costs.db"), "PENSTOCK_MEASURE": str(measure)}
    outcome = penstock(*command, env=own | {"TMPDIR": str(tmp_path / "temporary")})
    assert list((tmp_path / "temporary").iterdir()) == []
    assert (outcome.code, outcome.out) == (130, "")
    assert outcome.error.startswith("interrupted: device 'cpu:")
    assert outcome.error.endswith("': what it could do at most was not measured")


def test_peaks_are_not_measured_again_unasked(penstock):
    refused = penstock("devices", "--refresh", "--json")
    assert refused.code == 2 and "--peaks" in refused.error


def test_backends_says_which_engine_was_taken(well):
    shown = well("backends", "--json").json
    (ort,) = [backend for backend in shown["backends"] if backend["name"] == "onnxruntime"]
    assert ort["available"], ort
    assert ort["engine_version"].startswith("1.")
    assert ort["engine_file"] in well("backends").out


def test_backends_says_why_an_engine_is_missing(well, tmp_path):
    missing = tmp_path / "absent.so"
    shown = well("backends", "--json", env={"PENSTOCK_ONNXRUNTIME": str(missing)}).json
    (ort,) = [backend for backend in shown["backends"] if backend["name"] == "onnxruntime"]
    assert not ort["available"]
    assert str(missing) in ort["unavailable"]


def test_backends_names_plugins_that_cannot_be_loaded(well, tmp_path):
    broken = tmp_path / "libpenstock_backend_broken.so"
    broken.write_text("this is no library")
    shown = well("backends", "--json", env={"PENSTOCK_PLUGIN_PATH": str(broken)}).json
    assert any(str(broken) in problem for problem in shown["problems"])


def test_named_places_without_plugins_are_warned_of_once(well, double, tmp_path):
    (tmp_path / "empty").mkdir()
    usual = well("show", double)
    outcome = well("show", double, env={"PENSTOCK_PLUGIN_PATH": "away:empty"})
    assert outcome.out == usual.out
    assert outcome.err.removesuffix(usual.err).splitlines() == [
        "penstock: warning: PENSTOCK_PLUGIN_PATH: 'away': no such folder or file",
        "penstock: warning: PENSTOCK_PLUGIN_PATH: 'empty': no plugin in this folder: expected libpenstock_backend_*.so",
    ]
    shown = well("backends", env={"PENSTOCK_PLUGIN_PATH": "empty"})
    assert (shown.out.count("'empty'"), shown.err) == (1, "")
    own = {"PENSTOCK_PLUGIN_PATH": "empty", "PENSTOCK_COSTS": str(tmp_path / "costs.db")}
    assert well("devices", "--peaks", env=own).err.count("'empty'") == 1
