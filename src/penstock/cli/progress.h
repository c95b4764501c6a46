// A progress bar on stderr, on a terminal only.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace penstock::cli {

/// Shows "run  [=====     ]  45/200 frames"; redraws at most ten times a second; wiped at the end.
class Progress {
 public:
  Progress(std::string title, std::string unit, std::uint64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::uint64_t done);

 private:
  std::string title_;
  std::string unit_;
  std::uint64_t total_;
  bool on_terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace penstock::cli
