// Random networks of open shapes: several frames in one call give what so many calls give, in
// whatever sizes, or a sentence names the node that stops it.
//
// PENSTOCK_OPEN_SHAPES: how many networks, 300 where it is not set; PENSTOCK_SAMPLE: as in
// sample.h.
#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/backend/registry.h"
#include "penstock/graph/test_support.h"
#include "penstock/tensor/random.h"
#include "tests/support/batched_calls.h"
#include "tests/support/contract_case.h"
#include "tests/support/sample.h"

namespace penstock {
namespace {

using contract::Dice;
using ::testing::HasSubstr;

constexpr int kFrames = 3;

/// A size is a number, or a letter that stands for one: the size is open.
using Shape = std::vector<std::string>;

struct Written {
  std::string name;
  Shape shape;
};

/// A network as text, made operator by operator of a seed.
class RandomNetwork {
 public:
  explicit RandomNetwork(std::uint64_t seed) : dice_(seed) {
    const int inputs = dice_.from_to(1, 2);
    for (int i = 0; i < inputs; ++i) {
      Shape shape;
      for (int k = dice_.from_to(2, 4); k > 0; --k) {
        shape.push_back(dice_.one_of<const char*>({"n", "s", "t", "s", "1", "1", "2", "3"}));
      }
      values_.push_back({concat("x", i), shape});
      inputs_.push_back(concat(to_text(shape), " x", i));
    }
    const int nodes = dice_.from_to(2, 7);
    while (made_ < nodes) add_node();
  }

  [[nodiscard]] std::string text() const {
    const auto& last = values_.back();
    Shape any;  // Whatever it comes to.
    for (std::size_t k = 0; k < last.shape.size(); ++k) any.push_back(concat("o", k));
    return concat("(", join(inputs_, ", "), ") => (", to_text(any), " ", last.name, ") <",
                  join(constants_, ", "), "> {", body_, " }");
  }

 private:
  static std::string to_text(const Shape& shape) { return concat("float[", join(shape, ","), "]"); }

  Written any() { return values_[pick(values_.size())]; }
  std::size_t pick(std::size_t count) { return static_cast<std::size_t>(dice_.below(count)); }

  void add(const std::string& op, const std::string& inputs, Shape shape) {
    const auto name = concat("v", made_++);
    body_ += concat(" [n_", name, "] ", name, " = ", op, "(", inputs, ")");
    values_.push_back({name, std::move(shape)});
  }

  std::string integers(const std::vector<std::int64_t>& list) {
    const auto name = concat("c", constants_.size());
    const auto text = join(list, ", ", [](std::int64_t i) { return std::to_string(i); });
    constants_.push_back(concat("int64[", list.size(), "] ", name, " = {", text, "}"));
    return name;
  }

  /// A size that no other one is known to be.
  std::string fresh() { return concat("q", fresh_++); }

  void add_node() {
    const auto x = any();
    const int rank = static_cast<int>(x.shape.size());
    if (rank == 0) return add("Tanh", x.name, x.shape);
    const int axis = dice_.below(static_cast<std::size_t>(rank));
    switch (dice_.below(13)) {
      case 0:
        return add("Tanh", x.name, x.shape);
      case 1:
        return add(concat("Softmax<axis = ", axis, ">"), x.name, x.shape);
      case 2:
        return transpose(x);
      case 3:
        return sum(x);
      case 4:
        return reduce(x, axis);
      case 5:
        return unsqueeze(x);
      case 6:
        return squeeze(x);
      case 7:
        return concatenate(x, axis);
      case 8:
        return product(x);
      case 9:
        return merge(x);
      case 10:
        return computed_reshape(x);
      case 11:
        return take(x, axis);
      default:
        return repeat(x, axis);
    }
  }

  void transpose(const Written& x) {
    std::vector<int> order(x.shape.size());
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t k = order.size(); k > 1; --k) std::swap(order[k - 1], order[pick(k)]);
    Shape shape;
    for (const int k : order) shape.push_back(x.shape[static_cast<std::size_t>(k)]);
    const auto perm = join(order, ", ", [](int k) { return std::to_string(k); });
    add(concat("Transpose<perm = [", perm, "]>"), x.name, shape);
  }

  void sum(const Written& x) {
    for (const auto& other : values_) {
      if (other.name == x.name || other.shape != x.shape) continue;
      return add("Add", x.name + ", " + other.name, x.shape);
    }
    add("Add", x.name + ", " + x.name, x.shape);
  }

  void reduce(const Written& x, int axis) {
    const bool keep = dice_.one_in(2);
    auto shape = x.shape;
    if (keep) {
      shape[static_cast<std::size_t>(axis)] = "1";
    } else {
      shape.erase(shape.begin() + axis);
    }
    const auto* op = dice_.one_of<const char*>({"ReduceMax", "ReduceMean"});
    add(concat(op, "<axes = [", axis, "], keepdims = ", keep ? 1 : 0, ">"), x.name, shape);
  }

  void unsqueeze(const Written& x) {
    if (x.shape.size() > 4) return;
    const auto at = pick(x.shape.size() + 1);
    auto shape = x.shape;
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(at), "1");
    add("Unsqueeze", x.name + ", " + integers({static_cast<std::int64_t>(at)}), shape);
  }

  void squeeze(const Written& x) {
    const auto one = std::ranges::find(x.shape, "1");
    if (one == x.shape.end()) return;
    auto shape = x.shape;
    shape.erase(shape.begin() + (one - x.shape.begin()));
    add("Squeeze", x.name + ", " + integers({one - x.shape.begin()}), shape);
  }

  void concatenate(const Written& x, int axis) {
    auto shape = x.shape;
    auto& size = shape[static_cast<std::size_t>(axis)];
    size = size == "1" ? "2" : fresh();
    add(concat("Concat<axis = ", axis, ">"), x.name + ", " + x.name, shape);
  }

  /// Of a value with itself turned over, or with a matrix that is the same for all frames.
  void product(const Written& x) {
    if (x.shape.size() < 2) return;
    auto shape = x.shape;
    std::swap(shape[shape.size() - 2], shape.back());
    std::vector<std::size_t> order(shape.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::swap(order[order.size() - 2], order.back());
    const auto perm = join(order, ", ", [](std::size_t k) { return std::to_string(k); });
    add(concat("Transpose<perm = [", perm, "]>"), x.name, shape);
    shape.back() = shape[shape.size() - 2] = x.shape[x.shape.size() - 2];
    add("MatMul", x.name + ", " + values_.back().name, shape);
  }

  /// The last two dimensions as one; what stands before them is copied, or left over.
  void merge(const Written& x) {
    if (x.shape.size() < 2) return;
    auto shape = x.shape;
    shape.pop_back();
    shape.back() = fresh();
    std::vector<std::int64_t> to(shape.size(), 0);
    to.back() = -1;
    add("Reshape", x.name + ", " + integers(to), shape);
  }

  /// The first dimension as it is found to be, and all others as one.
  void computed_reshape(const Written& x) {
    const auto part = dice_.below(x.shape.size());
    const auto shape = concat("shape", made_);
    body_ += concat(" ", shape, " = Shape(", x.name, ") ", shape, "_0 = Gather<axis = 0>(", shape,
                    ", ", integers({part}), ") ", shape, "_to = Concat<axis = 0>(", shape, "_0, ",
                    integers({-1}), ")");
    add("Reshape", concat(x.name, ", ", shape, "_to"),
        {x.shape[static_cast<std::size_t>(part)], fresh()});
  }

  void take(const Written& x, int axis) {
    auto shape = x.shape;
    shape[static_cast<std::size_t>(axis)] = "1";
    add(concat("Gather<axis = ", axis, ">"), x.name + ", " + integers({0}), shape);
  }

  void repeat(const Written& x, int axis) {
    auto shape = x.shape;
    std::vector<std::int64_t> repeats(shape.size(), 1);
    repeats[static_cast<std::size_t>(axis)] = 2;
    shape[static_cast<std::size_t>(axis)] = fresh();
    add("Tile", x.name + ", " + integers(repeats), shape);
  }

  Dice dice_;
  std::vector<std::string> inputs_, constants_;
  std::vector<Written> values_;
  std::string body_;
  int made_ = 0, fresh_ = 0;
};

/// Frames of one shape; each letter is a size of 1 to 4.
std::vector<std::vector<Tensor>> make_frames(const graph::Graph& graph, Dice& dice,
                                             Random& random) {
  std::map<std::string, std::int64_t> sizes;
  std::vector<std::vector<Tensor>> frames(kFrames);
  for (const auto id : graph.inputs) {
    auto type = graph.value(id).type;
    for (auto& dim : type.dims) {
      if (dim.fixed()) continue;
      dim = {sizes.try_emplace(dim.symbol, dice.from_to(1, 4)).first->second, {}, Dim::kOpen};
    }
    for (auto& frame : frames) frame.push_back(*random_tensor(type, random));
  }
  return frames;
}

std::uint64_t count_of_networks() {
  const char* given = std::getenv("PENSTOCK_OPEN_SHAPES");
  return given == nullptr ? 300 : std::strtoull(given, nullptr, 10);
}

TEST(OpenShapes, OfRandomNetworksComputeTheSameOrAreRefusedByANode) {
  const auto backends = backend::Registry::load();
  const auto backend = backends.find("onnxruntime");
  ASSERT_TRUE(backend) << backend.error().message();
  std::uint64_t taken = 0, refused = 0;
  for (const auto seed : sampled(count_of_networks())) {
    const auto text = RandomNetwork(seed).text();
    SCOPED_TRACE(concat("seed ", seed, ": ", text));
    const auto graph =
        graph::import_text(R"(<ir_version: 8, opset_import: ["" : 17]> net )" + text);
    const auto wide = graph::batched(graph::Subgraph::whole(graph), kFrames);
    if (!wide) {
      EXPECT_THAT(wide.error().message(), HasSubstr("node '"));
      ++refused;
      continue;
    }
    Dice dice(seed);
    Random random(seed);
    for (int sizes = 0; sizes < 2; ++sizes) {
      bool skipped = false;
      const auto frames = make_frames(graph, dice, random);
      EXPECT_EQ(batched_difference(**backend, graph, *wide, frames, skipped), "");
      taken += skipped ? 0 : 1;
    }
  }
  std::cout << taken << " calls compared, " << refused << " networks refused\n";
  EXPECT_GT(taken, in_sample(count_of_networks()));
}

}  // namespace
}  // namespace penstock
