"""Networks of nested control flow: split at any cut, they compute what ONNX Runtime makes of the file."""

from pathlib import Path

import onnx.parser
import pytest

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'

# A text in ONNX's own syntax, what is bound, and the operators that are left.
NETWORKS = {
    "an If in an If over another input": (
        """g (float[2, 3] x, int64 rate, bool fine) => (float[2, 3] y)
          <int64 known = {16000}, float[3, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}> {
          c = Equal(rate, known)
          y = If (c) <
            then_branch = fast () => (float[2, 3] a) {
              m = MatMul(x, w)
              h = Tanh(m)
              a = If (fine) <
                then_branch = one () => (float[2, 3] p) { q = Exp(h) p = Add(q, x) },
                else_branch = two () => (float[2, 3] r) { r = Neg(h) }>
            },
            else_branch = slow () => (float[2, 3] b) { b = Abs(x) }>
        }""",
        ["rate=16000", "fine=true"],
        ["MatMul", "Tanh", "Exp", "Add"],
    ),
    "a Loop with a branch in it that each iteration takes otherwise": (
        """g (float[2, 3] x, int64 n) => (float[2, 3] y, float[k, 2, 3] all) <int64 one = {1}> {
          y, all = Loop (n, , x) <body = b (int64 i, bool on, float[2, 3] s)
            => (bool on2, float[2, 3] t, float[2, 3] row)
            <float half = {0.5}> {
            on2 = Identity(on)
            first = Less(i, one)
            t = If (first) <
              then_branch = yes () => (float[2, 3] p) { p = Sin(s) },
              else_branch = no () => (float[2, 3] q) { u = Mul(s, half) q = Add(u, x) }>
            row = Neg(t)
          }>
        }""",
        ["n=3"],
        ["Sin", "Neg", "Mul", "Add", "Neg", "Mul", "Add", "Neg", *["Unsqueeze"] * 3, "Concat"],
    ),
    "a Loop over the rows of a shape, in an If": (
        """g (float[4, 3] x, int64 mode) => (float[3] y, float[3] z)
          <int64 one = {1}, int64 zero = {0}, bool go = {1}> {
          c = Equal(mode, one)
          shape = Shape(x)
          n = Gather(shape, zero)
          y, z = If (c) <
            then_branch = sum () => (float[3] a, float[3] a2) {
              start = Gather(x, zero)
              a, a2 = Loop (n, go, start, start) <body = b (int64 i, bool on, float[3] s, float[3] r)
                => (bool on, float[3] t, float[3] s) {
                row = Gather(x, i)
                t = Add(s, row)
              }>
            },
            else_branch = other () => (float[3] b, float[3] b2) { b = ReduceMax
              <axes = [0], keepdims = 0> (x) b2 = Identity(b) }>
        }""",
        ["mode=1"],
        ["Gather", *["Gather", "Add"] * 4],
    ),
    "branches of other shapes, one of which hands on what it captures": (
        """g (float[2, 4] x, bool wide) => (float[2, m] y, float[2, 4] z)
          <int64[1] a = {0}, int64[1] b = {2}, int64[1] axis = {1}> {
          h = Relu(x)
          t, u = If (wide) <
            then_branch = yes () => (float[2, 4] p, float[2, 4] k) <float[2, 4] k = {1, 2, 3, 4, 5, 6, 7, 8}> {
              p = Identity(h) },
            else_branch = no () => (float[2, 2] q, float[2, 4] v) { q = Slice(h, a, b, axis) v = Identity(x) }>
          y = Exp(t)
          z = Add(u, x)
        }""",
        ["wide=true"],
        ["Relu", "Exp", "Add"],
    ),
    "an If that stays, with known ones in its branches": (
        """g (float[2, 3] x, float[1] level, bool up) => (float[2, 3] y) <float[1] limit = {0.5}, int64 two = {2}> {
          h = Sigmoid(x)
          c = Greater(level, limit)
          cc = Squeeze(c)
          t = If (cc) <
            then_branch = yes () => (float[2, 3] a) {
              k = Mul(h, h)
              a = If (up) <
                then_branch = one () => (float[2, 3] p) { p = Loop (two, , k)
                  <body = b (int64 i, bool on, float[2, 3] s) => (bool on, float[2, 3] v) { v = Add(s, h) }> },
                else_branch = other () => (float[2, 3] q) { q = Neg(k) }>
            },
            else_branch = no () => (float[2, 3] d) {
              d = If (up) <
                then_branch = three () => (float[2, 3] r) { r = Cos(x) },
                else_branch = four () => (float[2, 3] w) { w = Abs(x) }>
            }>
          y = Neg(t)
        }""",
        ["up=true"],
        ["Sigmoid", "Greater", "Squeeze", "If", "Neg"],
    ),
    "a Scan whose body has a known If": (
        """g (float[2] x, float[r, 2] rows, int64 mode) => (float[2] y, float[r, 2] z) <int64 one = {1}> {
          c = Equal(mode, one)
          s, w = Scan <num_scan_inputs = 1, body = b (float[2] state, float[2] row) => (float[2] next, float[2] out) {
            next = Add(state, row)
            out = If (c) <
              then_branch = yes () => (float[2] k) { k = Neg(next) },
              else_branch = no () => (float[2] l) { l = Sin(row) }>
          }> (x, rows)
          y = Exp(s)
          z = Abs(w)
        }""",
        ["mode=1"],
        ["Scan", "Exp", "Abs"],
    ),
    "a Scan of known length from the end of the second dimension": (
        """g (float[2] x, float[2, 3] columns) => (float[2] y, float[2, 3] z) {
          s, w = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1],
                       scan_output_axes = [1], body = b (float[2] state, float[2] column)
            => (float[2] next, float[2] out) {
            next = Add(state, column)
            out = Tanh(next)
          }> (x, columns)
          y = Exp(s)
          z = Abs(w)
        }""",
        [],
        [*["Gather", "Add", "Tanh"] * 3, *["Unsqueeze"] * 3, "Concat", "Exp", "Abs"],
    ),
    "a Loop that ends before it begins": (
        """g (float[2] x, bool go) => (float[2] y, float[k, 2] all) <int64 n = {9}> {
          h = Neg(x)
          t, all = Loop (n, go, h) <body = b (int64 i, bool on, float[2] s)
            => (bool on, float[2] u, float[2] s) { u = Exp(s) }>
          y = Abs(t)
        }""",
        ["go=false"],
        ["Neg", "Abs"],
    ),
    "names that meet": (
        """g (float[2] x, bool c, bool d) => (float[2] y, float[2] w) {
          "y/h" = Sin(x)
          y, v = If (c) <
            then_branch = yes () => (float[2] a, float[2] e) {
              h = Neg(x)
              a = Add(h, "y/h")
              e = If (d) <
                then_branch = one () => (float[2] m) { y = Cos(a) m = Add(y, a) },
                else_branch = two () => (float[2] n) { n = Abs(a) }>
            },
            else_branch = no () => (float[2] b, float[2] f) { b = Abs(x) f = Sin(x) }>
          w = Exp(v)
        }""",
        ["c=true", "d=true"],
        ["Sin", "Neg", "Add", "Cos", "Add", "Exp"],
    ),
    "loops in a loop": (
        """g (float[3] x) => (float[3] y, float[2, 3] rows) <int64 two = {2}, int64 three = {3}> {
          y, rows = Loop (two, , x) <body = b (int64 i, bool on, float[3] s)
            => (bool on, float[3] t, float[3] sum) <int64[1] axes = {0}> {
            t, inner = Loop (three, , s) <body = bb (int64 j, bool on2, float[3] u)
              => (bool on2, float[3] v, float[3] q) {
              k = Mul(i, j)
              f = Cast <to = 1> (k)
              q = Add(u, f)
              v = Sin(q)
            }>
            sum = ReduceSum <keepdims = 0> (inner, axes)
          }>
        }""",
        [],
        [*([*["Add", "Sin"] * 3, *["Unsqueeze"] * 3, "Concat", "ReduceSum"] * 2), *["Unsqueeze"] * 2, "Concat"],
    ),
}


def saved(folder: Path, name: str) -> tuple[Path, list[str], list[str]]:
    """The network's file, the options that bind its inputs, and the operators that are left then."""
    text, bound, ops = NETWORKS[name]
    file = folder / "network.onnx"
    onnx.save(onnx.parser.parse_model(HEAD + text), file)
    constants = [word for constant in bound for word in ("--constant", constant)]
    return file, constants, ops


@pytest.mark.sweep(of=3)
@pytest.mark.parametrize("name", NETWORKS)
def test_split_at_every_cut_they_compute_the_same(well, tmp_path, name):
    file, constants, ops = saved(tmp_path, name)
    nodes = well("show", file, *constants, "--json").json["nodes"]
    assert [node["op"] for node in nodes] == ops
    for cut in range(len(nodes) - 1):
        package = tmp_path / "network.penstock"
        well("split", file, *constants, "--cut", cut, "-o", package)
        assert well("verify", package, "--frames", "5", "--json").json["ok"], cut


@pytest.mark.parametrize("name", NETWORKS)
def test_whole_and_in_three_too(well, tmp_path, name):
    file, constants, ops = saved(tmp_path, name)
    for cuts in ([], sorted({0, (len(ops) - 1) // 2})):
        package = tmp_path / "network.penstock"
        chosen = [word for cut in cuts for word in ("--cut", cut)]
        well("split", file, *constants, *chosen, "-o", package)
        assert well("verify", package, "--frames", "5", "--json").json["ok"], cuts


def test_a_loop_that_zeros_never_end_starts_all_the_same(well, tmp_path):
    """Each step doubles the values, until one is 5; a pipeline warms up on zeros."""
    text = """g (float[4] x) => (float[4] y, float[n] largest) {
        y, largest = Loop ("", "", x) <body = b (int64 i, bool on, float[4] v)
          => (bool on2, float[4] w, float top) <float end = {5}> {
          w = Add(v, v)
          a = Abs(w)
          top = ReduceMax <keepdims = 0> (a)
          on2 = Less(top, end)
        }>
    }"""
    onnx.save(onnx.parser.parse_model(HEAD + text), tmp_path / "doubling.onnx")
    well("split", tmp_path / "doubling.onnx", "-o", tmp_path / "p")
    assert well("verify", tmp_path / "p", "--frames", "5", "--json").json["ok"]
