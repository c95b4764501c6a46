#include "program.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace penstock::onednn {
namespace {

constexpr std::size_t kAlignment = Tensor::kAlignment;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// The steps that touch a buffer: none where first > last.
struct Span {
  std::size_t first = std::numeric_limits<std::size_t>::max();
  std::size_t last = 0;

  [[nodiscard]] bool used() const { return first <= last; }
  [[nodiscard]] bool overlaps(const Span& other) const {
    return first <= other.last && other.first <= last;
  }
};

std::vector<Span> spans_of(const Program& program) {
  std::vector<Span> spans(program.buffers.size());
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    for (const auto& argument : program.steps[i].arguments) {
      Span& span = spans[argument.place.buffer];
      span.first = std::min(span.first, i);
      span.last = std::max(span.last, i);
    }
  }
  return spans;
}

}  // namespace

void plan_arena(Program& program) {
  const auto spans = spans_of(program);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    if (program.buffers[i].kind == Buffer::Kind::kArena && spans[i].used()) order.push_back(i);
  }
  // The largest first, each at the lowest offset that is free for as long as it lives.
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return program.buffers[a].bytes > program.buffers[b].bytes;
  });
  std::vector<std::size_t> placed;  // By offset.
  for (const std::size_t i : order) {
    Buffer& buffer = program.buffers[i];
    std::size_t offset = 0;
    for (const std::size_t other : placed) {
      if (!spans[i].overlaps(spans[other])) continue;
      const Buffer& taken = program.buffers[other];
      if (offset + buffer.bytes <= taken.offset) break;
      offset = std::max(offset, aligned(taken.offset + taken.bytes));
    }
    buffer.offset = offset;
    program.arena_bytes = std::max(program.arena_bytes, offset + buffer.bytes);
    placed.insert(std::ranges::upper_bound(
                      placed, offset, {}, [&](std::size_t b) { return program.buffers[b].offset; }),
                  i);
  }
  for (const auto& step : program.steps) {
    program.scratch_bytes = std::max(program.scratch_bytes, step.scratch_bytes);
  }
}

}  // namespace penstock::onednn
