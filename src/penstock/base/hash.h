// SHA-256, for the hashes of files and of canonical subgraphs.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "penstock/base/result.h"

namespace penstock {

/// Feeds bytes in pieces; the digest is the same as of all of them at once.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  /// 64 lower-case hexadecimal digits. Call once.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256_of(std::string_view text);

/// Takes the same time wherever the texts of one length differ, so that it tells nothing of a
/// secret.
bool equal_in_constant_time(std::string_view a, std::string_view b);

/// \error kNotFound  the file cannot be read.
Result<std::string> sha256_of_file(const std::filesystem::path& file);

}  // namespace penstock
