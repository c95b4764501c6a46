// Puts a longer copy in the place of `environ`, and never frees what other threads may read.
#include "penstock/backend/environment.h"

#include <atomic>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <vector>

#include <unistd.h>

namespace penstock::backend {
namespace {

/// What the environment may point at for as long as the process runs: never freed.
struct Kept {
  std::mutex mutex;
  std::deque<std::string> variables;
  std::deque<std::vector<char*>> arrays;
};

Kept& kept() {
  static auto* const kKept = new Kept;
  return *kKept;
}

}  // namespace

void add_to_environment(const std::string& name, const std::string& value) {
  const std::scoped_lock lock(kept().mutex);
  if (std::getenv(name.c_str()) != nullptr) return;
  auto& array = kept().arrays.emplace_back();
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    array.push_back(*variable);
  }
  array.push_back(kept().variables.emplace_back(name + "=" + value).data());
  array.push_back(nullptr);
  std::atomic_ref(environ).store(array.data(), std::memory_order_release);
}

}  // namespace penstock::backend
