"""Random networks of nested control flow, of which some conditions and counts are known."""

import random
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Scope = dict[str, list[str]]  # Names that may be read, by what they are.

INPUTS = {
    "x": (TensorProto.FLOAT, [3]),
    "x2": (TensorProto.FLOAT, [3]),
    "rows": (TensorProto.FLOAT, [4, 3]),
    "flag": (TensorProto.BOOL, []),
    "count": (TensorProto.INT64, []),
    "bound_flag": (TensorProto.BOOL, []),
    "bound_integer": (TensorProto.INT64, []),
}


def network(seed: int) -> onnx.ModelProto:
    """Over INPUTS, of which those that are called "bound" are meant to be."""
    return _Network(seed).model()


def _value(name: str, dtype: int = TensorProto.FLOAT, dims: Any = (3,)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, list(dims))


class _Block:
    """The nodes and constants of one graph while it grows, and what they may read."""

    def __init__(self, scope: Scope) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.scope = {kind: list(names) for kind, names in scope.items()}

    def add(self, op: str, inputs: list[str], outputs: list[str], **attributes: Any) -> None:
        self.nodes.append(helper.make_node(op, inputs, outputs, **attributes))

    def constant(self, name: str, array: Any) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def made(self) -> set[str]:
        return {name for node in self.nodes for name in node.output} | {c.name for c in self.constants}


class _Network:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = 0

    def model(self) -> onnx.ModelProto:
        kinds: Scope = {"float": ["x", "x2"], "flag": ["flag"], "known": ["bound_flag"], "integer": ["bound_integer"]}
        block = self.block(kinds, depth=3, steps=self.random.randrange(3, 7))
        outputs = self.results(block, self.random.randrange(1, 3))
        inputs = [_value(name, *kind) for name, kind in INPUTS.items()]
        graph = helper.make_graph(block.nodes, "nested", inputs, [_value(o) for o in outputs], block.constants)
        opset = helper.make_opsetid("", self.random.choice([13, 16, 17]))
        return helper.make_model(graph, opset_imports=[opset], ir_version=8)

    def name(self, base: str = "v") -> str:
        self.names += 1
        return f"{base}{self.names}"

    def maybe(self, base: str) -> str:
        return self.name(base) if self.random.randrange(2) else ""

    def block(self, scope: Scope, depth: int, steps: int) -> _Block:
        block = _Block(scope)
        for _ in range(steps):
            kind = self.random.randrange(10)
            if depth > 0 and kind < 7:
                (self.add_if, self.add_loop, self.add_scan)[min(kind // 3, 2)](block, depth - 1)
            elif kind == 7:
                values = np.random.default_rng(self.names).normal(size=3).astype(np.float32)
                block.scope["float"].append(block.constant(self.name("w"), values))
            else:
                count, ops = (2, ["Add", "Mul", "Sub"]) if kind == 8 else (1, ["Tanh", "Neg", "Sin", "Identity"])
                inputs = self.random.choices(block.scope["float"], k=count)
                block.scope["float"].append(self.name())
                block.add(self.random.choice(ops), inputs, [block.scope["float"][-1]])
        return block

    def results(self, block: _Block, count: int) -> list[str]:
        """Outputs of a graph: made in it, or copies of what it captures."""
        names: list[str] = []
        for _ in range(count):
            name = self.random.choice(block.scope["float"][-4:])
            if name in names or name not in block.made() or self.random.randrange(4) == 0:
                block.add("Identity", [name], [copy := self.name("o")])
                name = copy
            names.append(name)
        return names

    def condition(self, block: _Block) -> str:
        kind = self.random.randrange(6)
        if kind == 0:
            return self.random.choice(block.scope["flag"])
        if kind == 1:
            return block.constant(self.name("c"), np.array(bool(self.random.randrange(2))))
        if kind == 2:
            return self.random.choice(block.scope["known"])
        if kind == 3:
            value = numpy_helper.from_array(np.array(bool(self.random.randrange(2))))
            block.add("Constant", [], [name := self.name("c")], value=value)
        elif kind == 4:
            block.add("Not", [self.random.choice(block.scope["known"])], [name := self.name("c")])
        else:
            limit = block.constant(self.name("k"), np.int64(self.random.randrange(3)))
            block.add("Less", [self.random.choice(block.scope["integer"]), limit], [name := self.name("c")])
        return name

    def add_if(self, block: _Block, depth: int) -> None:
        condition, count = self.condition(block), self.random.randrange(1, 3)
        first, most, branches = self.names, self.names, []
        for _ in range(2):
            if self.random.randrange(2):
                self.names = first  # Both branches use the same names.
            inner = self.block(block.scope, depth, self.random.randrange(0, 4))
            outputs = [_value(name) for name in self.results(inner, count)]
            branches.append(helper.make_graph(inner.nodes, "branch", [], outputs, inner.constants))
            most = max(most, self.names)
        self.names = most
        names = [self.name() for _ in range(count)]
        then, otherwise = branches
        block.add("If", [condition], names, name=self.maybe("if"), then_branch=then, else_branch=otherwise)
        block.scope["float"] += names

    def add_loop(self, block: _Block, depth: int) -> None:
        known = self.random.randrange(4) > 0
        trips = block.constant(self.name("n"), np.int64(self.random.randrange(4))) if known else "count"
        condition = self.condition(block) if self.random.randrange(2) else ""
        carried, gathered = self.random.randrange(1, 3), self.random.randrange(2)
        number, on = self.name("i"), self.name("on")
        states = [self.name("s") for _ in range(carried)]
        scope = block.scope | {
            "float": block.scope["float"] + states,
            "integer": [*block.scope["integer"], number],
        }
        inner = self.block(scope, depth, self.random.randrange(1, 4))
        goes_on = self.goes_on(inner, number, on)
        outputs = self.results(inner, carried + gathered)
        inputs = [_value(number, TensorProto.INT64, ()), _value(on, TensorProto.BOOL, ()), *map(_value, states)]
        results = [_value(goes_on, TensorProto.BOOL, ()), *map(_value, outputs)]
        body = helper.make_graph(inner.nodes, "body", inputs, results, inner.constants)
        begin = self.random.choices(block.scope["float"], k=carried)
        names, rows = [self.name() for _ in range(carried)], [self.name("rows") for _ in range(gathered)]
        block.add("Loop", [trips, condition, *begin], names + rows, name=self.maybe("loop"), body=body)
        block.scope["float"] += names
        for each in rows:
            self.add_sum(block, each)

    def goes_on(self, block: _Block, number: str, on: str) -> str:
        kind = self.random.randrange(4)
        if kind == 0:
            return on
        name = self.name("goes_on")
        if kind == 1:
            block.add("Identity", [on], [name])
        elif kind == 2:
            block.add("Constant", [], [name], value=numpy_helper.from_array(np.array(True)))
        else:
            block.add("Less", [number, block.constant(self.name("k"), np.int64(1))], [name])
        return name

    def add_scan(self, block: _Block, depth: int) -> None:
        state, row = self.name("s"), self.name("x")
        scope = block.scope | {"float": [*block.scope["float"], state, row]}
        inner = self.block(scope, depth, self.random.randrange(1, 4))
        outputs = self.results(inner, 2)
        body = helper.make_graph(
            inner.nodes, "scan", [_value(state), _value(row)], [_value(o) for o in outputs], inner.constants
        )
        last, rows = self.name(), self.name("rows")
        begin = self.random.choice(block.scope["float"])
        backwards = [self.random.randrange(2)]
        read = {"num_scan_inputs": 1, "scan_input_directions": backwards}
        block.add("Scan", [begin, "rows"], [last, rows], body=body, **read)
        block.scope["float"].append(last)
        self.add_sum(block, rows)

    def add_sum(self, block: _Block, rows: str) -> None:
        axes = block.constant(self.name("axes"), np.array([0], np.int64))
        block.add("ReduceSum", [rows, axes], [name := self.name()], keepdims=0)
        block.scope["float"].append(name)
