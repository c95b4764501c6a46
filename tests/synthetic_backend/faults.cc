#include "tests/synthetic_backend/faults.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#include "penstock/measure/variants.h"
#include "tests/support/faulty_outputs.h"

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

/// Of the last two calls.
void remember(std::span<Tensor* const> outputs, Faults::Past& past) {
  if (past.size() == 2) past.erase(past.begin());
  auto& now = past.emplace_back();
  for (const auto* output : outputs) now.push_back(output->clone());
}

void swap_equal(std::span<Tensor* const> outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (std::size_t k = i + 1; k < outputs.size(); ++k) {
      if (!(outputs[i]->type() == outputs[k]->type())) continue;
      const auto first = outputs[i]->clone();
      std::memcpy(outputs[i]->data(), outputs[k]->data(), first.bytes());
      std::memcpy(outputs[k]->data(), first.data(), first.bytes());
      return;
    }
  }
}

/// Output `i` as the fault gives it; as it is, where the fault cannot be.
Tensor spoiled(const Fault& fault, const Tensor& right, std::size_t i, const Faults::Past& past) {
  Tensor wrong = right.clone();
  switch (fault.kind) {
    case Kind::kWrong:
      if (right.dtype() == DType::kF32) add<float>(wrong, fault.by);
      if (right.dtype() == DType::kF64) add<double>(wrong, fault.by);
      return wrong;
    case Kind::kZeros:
      return zeros(right);
    case Kind::kShifted:
      return shifted_channels(right);
    case Kind::kBlock:
      return one_wrong_block(right);
    case Kind::kLastRow:
      return without_last_row(right);
    case Kind::kBf16:
      return measure::rounded_to(DType::kBF16, right);
    case Kind::kStale:
      return past.empty() ? wrong : past.back()[i].clone();
    case Kind::kOther:
      return past.size() < 2 ? wrong : past.front()[i].clone();
    default:
      return wrong;
  }
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
      default:
        break;  // Of the outputs: see spoil().
    }
  }
  return {};
}

void Faults::spoil(std::int64_t time, std::span<Tensor* const> outputs, Past& past) const {
  for (const auto& [fault, op] : met_) {
    if (time < fault.after) continue;
    const Past before = past;
    remember(outputs, past);
    if (fault.kind == Kind::kSwapped) swap_equal(outputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      auto& output = *outputs[i];
      if (output.kind() != Tensor::Kind::kDense || bits_of(output.dtype()) < 8) continue;
      if (output.count() <= fault.above) continue;
      const auto wrong = spoiled(fault, output, i, before);
      std::memcpy(output.data(), wrong.data(), std::min(wrong.bytes(), output.bytes()));
    }
  }
}

}  // namespace penstock::synthetic
