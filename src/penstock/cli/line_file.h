// A file that ends with a whole line, whatever becomes of its disk.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "penstock/base/result.h"

namespace penstock::cli {

/// Writes lines, to standard output each at once. Where a line of a file cannot be written to its
/// end, its part is cut off, and the file ends with the line before.
class LineFile {
 public:
  /// "-" is standard output. \error kPermissionDenied  the file cannot be written.
  static Result<LineFile> create(const std::filesystem::path& target);
  LineFile(LineFile&&) noexcept;
  LineFile& operator=(LineFile&&) noexcept;
  ~LineFile();  ///< Writes what it can of what was not flushed.

  /// `frame` is one line, and ends with the only \n in it.
  /// \error kResourceExhausted, kPermissionDenied  with the system's reason and how many frames are
  ///        in the file; what waited to be written is lost.
  Status write(std::string_view frame);
  /// What waits is written now. \error as write()
  Status flush();

 private:
  struct State;
  explicit LineFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace penstock::cli
