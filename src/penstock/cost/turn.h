// Taking turns at measuring: two processes that time something at once disturb each other.
#pragma once

#include <filesystem>
#include <functional>
#include <utility>

namespace penstock::cost {

/// Held while this process may time; other processes with the same cost database wait meanwhile.
/// The system takes it back from a process that ends, however it ends.
class Turn {
 public:
  /// Blocks until it is this process's turn, or `interrupted` (asked fifty times a second) says
  /// true: then taken() is false. Where there can be no lock beside `database` (in memory, a
  /// folder that cannot be written) it is always one's turn.
  static Turn wait(const std::filesystem::path& database, const std::function<bool()>& interrupted);

  Turn(Turn&& other) noexcept
      : file_(std::exchange(other.file_, -1)), taken_(std::exchange(other.taken_, false)) {}
  Turn& operator=(Turn&& other) noexcept;
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn();

  [[nodiscard]] bool taken() const { return taken_; }

 private:
  Turn(int file, bool taken) : file_(file), taken_(taken) {}
  int file_;
  bool taken_;
};

}  // namespace penstock::cost
