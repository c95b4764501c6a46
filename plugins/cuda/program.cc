// Plans a program's memory.
#include "program.h"

#include <algorithm>
#include <limits>

namespace penstock::cuda {
namespace {

/// What cuBLASLt's and cuDNN's fastest code wants.
constexpr std::size_t kAlignment = 256;

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
    for (const std::size_t buffer : program.steps[i].buffers) {
      spans[buffer].first = std::min(spans[buffer].first, i);
      spans[buffer].last = std::max(spans[buffer].last, i);
    }
  }
  return spans;
}

/// The largest first, each at the lowest offset that is free for as long as it lives.
void plan_arena(Program& program, const std::vector<Span>& spans) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    if (program.buffers[i].kind == Buffer::Kind::kArena && spans[i].used()) order.push_back(i);
  }
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
    program.memory_bytes = std::max(program.memory_bytes, aligned(offset + buffer.bytes));
    const auto offset_of = [&](std::size_t b) { return program.buffers[b].offset; };
    placed.insert(std::ranges::upper_bound(placed, offset, {}, offset_of), i);
  }
}

}  // namespace

DevicePointer Launch::at(std::size_t buffer, std::size_t byte_offset) const {
  const Buffer& found = program.buffers[buffer];
  const auto base = found.kind == Buffer::Kind::kConstant ? *program.weights : memory;
  return base + found.offset + byte_offset;
}

void plan_memory(Program& program) {
  const auto spans = spans_of(program);
  plan_arena(program, spans);
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    Buffer& buffer = program.buffers[i];
    if (buffer.kind == Buffer::Kind::kArena) continue;
    if (buffer.kind == Buffer::Kind::kConstant && !spans[i].used()) {
      buffer.bytes = 0;
      continue;
    }
    auto& end =
        buffer.kind == Buffer::Kind::kConstant ? program.weight_bytes : program.memory_bytes;
    buffer.offset = end;
    end += aligned(buffer.bytes);
  }
}

Status upload_weights(Program& program) {
  Gpu& gpu = *program.gpu;
  PENSTOCK_TRY(program.weights, gpu.allocate(std::max<std::size_t>(program.weight_bytes, 1)));
  for (const Buffer& buffer : program.buffers) {
    if (buffer.kind != Buffer::Kind::kConstant || buffer.bytes == 0) continue;
    const auto result =
        gpu.driver().copy_to_device(*program.weights + buffer.offset,
                                    program.constants[buffer.index].data(), buffer.bytes, nullptr);
    PENSTOCK_CHECK_OK(gpu.check(result, "bringing weights to the device"));
  }
  PENSTOCK_CHECK_OK(gpu.check(gpu.driver().synchronize_stream(nullptr), "weights"));
  program.constants.clear();
  return {};
}

}  // namespace penstock::cuda
