// Plans a program's memory.
#include "program.h"

#include <algorithm>

#include "penstock/lower/arena.h"

namespace penstock::cuda {
namespace {

/// What cuBLASLt's and cuDNN's fastest code wants.
constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

DevicePointer Launch::at(std::size_t buffer, std::size_t byte_offset) const {
  const Buffer& found = program.buffers[buffer];
  const auto base = found.kind == Buffer::Kind::kConstant ? *program.weights : memory;
  return base + found.offset + byte_offset;
}

void plan_memory(Program& program) {
  std::vector<lower::Block> blocks(program.buffers.size());
  std::vector<bool> is_used(program.buffers.size());
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    for (const std::size_t buffer : program.steps[i].buffers) {
      is_used[buffer] = true;
      if (program.buffers[buffer].kind == Buffer::Kind::kArena) blocks[buffer].steps.add(i);
    }
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i].bytes = program.buffers[i].bytes;
  program.memory_bytes = aligned(lower::place(blocks, kAlignment));
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    Buffer& buffer = program.buffers[i];
    if (buffer.kind == Buffer::Kind::kArena) {
      buffer.offset = blocks[i].offset;
      continue;
    }
    if (buffer.kind == Buffer::Kind::kConstant && !is_used[i]) {
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
