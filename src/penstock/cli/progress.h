// A progress bar on stderr, on a terminal only.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace penstock::cli {

/// A line that is written over, and wiped at the end. Nothing on a terminal without escape codes.
class TerminalLine {
 public:
  TerminalLine();
  ~TerminalLine();
  TerminalLine(const TerminalLine&) = delete;
  TerminalLine& operator=(const TerminalLine&) = delete;

  [[nodiscard]] bool on_terminal() const { return on_terminal_; }
  /// As much of it as the terminal is wide.
  void show(const std::string& text);

 private:
  bool on_terminal_;
};

/// Wipes what a TerminalLine shows, before `out` gets text, if that is a terminal too; the line's
/// next show() brings it back below. Any thread may call.
void make_room_on(std::FILE* out);

/// Shows "run  [=====     ]  45/200 frames"; redraws at most ten times a second.
/// A `total` that is not known: "run  45 frames". The bar is as wide as the terminal has room for.
class Progress {
 public:
  Progress(std::string title, std::string unit, std::optional<std::uint64_t> total);

  void show(std::uint64_t done);

 private:
  std::string title_;
  std::string unit_;
  std::optional<std::uint64_t> total_;
  TerminalLine line_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace penstock::cli
