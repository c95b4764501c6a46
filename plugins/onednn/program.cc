// Plans a program's memory.
#include "program.h"

#include <algorithm>

#include "penstock/lower/arena.h"

namespace penstock::onednn {

void plan_arena(Program& program) {
  std::vector<lower::Block> blocks(program.buffers.size());
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    for (const auto& argument : program.steps[i].arguments) {
      const auto buffer = argument.place.buffer;
      if (program.buffers[buffer].kind == Buffer::Kind::kArena) blocks[buffer].steps.add(i);
    }
    program.scratch_bytes = std::max(program.scratch_bytes, program.steps[i].scratch_bytes);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i].bytes = program.buffers[i].bytes;
  program.arena_bytes = lower::place(blocks, Tensor::kAlignment);
  for (std::size_t i = 0; i < blocks.size(); ++i) program.buffers[i].offset = blocks[i].offset;
}

}  // namespace penstock::onednn
