// What a worker is started with.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace penstock::host {

/// What it never goes beyond, besides serve::Limits; who would, gets kResourceExhausted.
struct Limits {
  std::uint64_t content_bytes = std::uint64_t{16} << 30;  ///< Of the folder of contents.
  std::size_t sessions = 64;
  std::size_t stages = 256;  ///< Of all sessions.
  std::size_t calls = 128;   ///< In progress on one stream; a stage has serve::Limits::waiting.
  std::uint64_t ticket_bytes = std::uint64_t{1} << 30;       ///< Of the tensors that stay here.
  std::chrono::nanoseconds lease = std::chrono::seconds(5);  ///< Where the caller wants none.
  std::chrono::nanoseconds most_lease = std::chrono::seconds(60);
};

struct Options {
  Limits limits;
  std::filesystem::path cache;                       ///< Of contents; empty: as Contents::open().
  bool native_code = false;                          ///< Callers may send libraries.
  std::function<void(const std::string&)> say = {};  ///< Told what comes and goes; any thread.
};

}  // namespace penstock::host
