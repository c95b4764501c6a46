// LoadOnce: an engine's library, opened for the first who asks for it.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "penstock/backend/backend.h"
#include "penstock/base/result.h"

namespace penstock::backend {

/// \threads  any: the first loads, the others wait for it.
template <typename Engine>
class LoadOnce {
 public:
  using Loaded = Result<std::shared_ptr<const Engine>>;

  explicit LoadOnce(Loaded (*load)()) : load_(load) {}

  /// What `load` returned; an error too is kept.
  const Loaded& operator()() const {
    std::call_once(once_, [this] { loaded_.emplace(load_()); });
    return *loaded_;
  }

  /// The backend `name` by its engine: the version and file, or why it is not available.
  [[nodiscard]] Description describe(std::string name) const {
    Description description;
    description.name = std::move(name);
    const auto& loaded = (*this)();
    if (loaded) {
      description.engine_version = (*loaded)->version;
      description.engine_file = (*loaded)->file.string();
    } else {
      description.unavailable = loaded.error().message();
    }
    return description;
  }

 private:
  Loaded (*load_)();
  mutable std::once_flag once_;
  mutable std::optional<Loaded> loaded_;
};

}  // namespace penstock::backend
