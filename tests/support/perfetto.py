"""Reads a trace as Perfetto's importer of JSON does: events by time, those of one time as they stand in the file;
slices in stacks, one for each thread; each step of a flow bound to the slice that is open then."""

import json
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Slice:
    process: int
    thread: int
    name: str
    category: str
    start: int  # Nanoseconds.
    end: int
    arguments: dict


@dataclass
class Trace:
    processes: dict[int, str] = field(default_factory=dict)
    threads: dict[tuple[int, int], str] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)
    flows: dict[str, list[tuple[int, str, Slice]]] = field(default_factory=dict)  # (time, phase, slice)
    counters: dict[tuple[int, str], list[tuple[int, int]]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def of_thread(self, name: str) -> list[Slice]:
        return [one for one in self.slices if self.threads.get((one.process, one.thread)) == name]


def ns(us: float) -> int:
    return round(us * 1000)


def read(file: Path) -> Trace:
    trace = Trace()
    stacks: dict[tuple[int, int], list[Slice]] = {}
    events = json.loads(file.read_text())["traceEvents"]
    for event in sorted(events, key=lambda event: ns(event.get("ts", 0))):
        read_one(trace, stacks, event)
    return trace


def read_one(trace: Trace, stacks: dict[tuple[int, int], list[Slice]], event: dict) -> None:
    phase, time, key = event["ph"], ns(event.get("ts", 0)), (event["pid"], event.get("tid", 0))
    if phase == "M":
        name = event["args"]["name"]
        if event["name"] == "process_name":
            trace.processes[event["pid"]] = name
        else:
            trace.threads[key] = name
    elif phase == "X":
        end = time + ns(event["dur"])
        made = Slice(*key, event["name"], event["cat"], time, end, event["args"])
        stack = open_at(stacks.setdefault(key, []), time)
        if stack and end > stack[-1].end:
            trace.problems.append(f"{made} overlaps {stack[-1]}")
        stack.append(made)
        trace.slices.append(made)
    elif phase in "stf":
        stack = open_at(stacks.get(key, []), time, closed=True)
        if not stack:
            trace.problems.append(f"no slice for {event}")
        elif phase == "f" and event.get("bp") != "e":
            trace.problems.append(f"binds to the next slice: {event}")
        else:
            trace.flows.setdefault(event["id"], []).append((time, phase, stack[-1]))
    elif phase == "C":
        trace.counters.setdefault((event["pid"], event["name"]), []).append((time, event["args"]["value"]))


def open_at(stack: list[Slice], time: int, closed: bool = False) -> list[Slice]:
    """Those that end at `time` are over for the next slice; a step at a slice's only moment is still in it."""
    while stack and (stack[-1].end < time or (not closed and stack[-1].end <= time)):
        stack.pop()
    return stack


def check(trace: Trace) -> None:
    """What must hold of any: tracks do not overlap, every flow binds, counters are steps."""
    assert trace.problems == []
    for steps in trace.flows.values():
        phases = [phase for _, phase, _ in steps]
        assert phases[0] == "s" and phases[-1] == "f" and set(phases[1:-1]) <= {"t"}
        assert len({one.arguments["frame"] for _, _, one in steps}) == 1
        assert all(time == one.start for time, _, one in steps)
    for steps in trace.counters.values():
        times = [time for time, _ in steps]
        assert times == sorted(set(times))
        values = [value for _, value in steps]
        assert all(a != b for a, b in zip(values, values[1:], strict=False)) and min(values) >= 0
