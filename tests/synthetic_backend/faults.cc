#include "tests/synthetic_backend/faults.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace penstock::synthetic {
namespace {

/// Should the whole machine run short, the kernel ends this process before any other.
void volunteer_to_be_killed() {
  std::ofstream("/proc/self/oom_score_adj") << 1000;
}

void eat_memory(std::uint64_t most) {
  constexpr std::size_t kChunk = std::size_t{16} << 20U;
  volunteer_to_be_killed();
  for (std::uint64_t eaten = 0; eaten < most; eaten += kChunk) {
    void* const chunk =
        ::mmap(nullptr, kChunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (chunk == MAP_FAILED) std::abort();
    std::ranges::fill(std::span(static_cast<char*>(chunk), kChunk), '\1');
  }
}

[[noreturn]] void hang() {
  for (;;) ::pause();
}

template <typename T>
void add(Tensor& tensor, double by) {
  for (auto& element : tensor.as<T>()) element += static_cast<T>(by);
}

}  // namespace

Faults::Faults(const Settings& settings, const graph::Graph& model, bool at_compile) {
  for (const auto& fault : settings.faults) {
    if (fault.at_compile != at_compile) continue;
    if (fault.nodes > 0 && std::cmp_not_equal(fault.nodes, model.nodes.size())) continue;
    const auto hit = std::ranges::find_if(model.nodes, [&](const graph::Node& node) {
      return fault.on == "*" || fault.on == node.name || fault.on == node.op;
    });
    if (hit != model.nodes.end()) met_.push_back({fault, hit->op});
  }
}

Status Faults::commit(std::int64_t time) const {
  for (const auto& [fault, op] : met_) {
    if (time < fault.after) continue;
    switch (fault.kind) {
      case Kind::kCrash:
        std::raise(SIGSEGV);
        break;
      case Kind::kAbort:
        std::abort();
      case Kind::kExit:
        ::_exit(3);
      case Kind::kHang:
        hang();
      case Kind::kEatMemory:
        eat_memory(fault.bytes);
        break;
      case Kind::kRefuse:
        return make_error(Code::kUnimplemented, "operator ", op, " is not implemented");
      case Kind::kWrong:
        break;
    }
  }
  return {};
}

void Faults::spoil(std::int64_t time, std::span<Tensor* const> outputs) const {
  for (const auto& [fault, op] : met_) {
    if (fault.kind != Kind::kWrong || time < fault.after) continue;
    for (auto* const output : outputs) {
      if (output->kind() != Tensor::Kind::kDense) continue;
      if (output->dtype() == DType::kF32) add<float>(*output, fault.by);
      if (output->dtype() == DType::kF64) add<double>(*output, fault.by);
    }
  }
}

}  // namespace penstock::synthetic
