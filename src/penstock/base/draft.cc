// Writes NAME.part and renames it, but for names that are no plain files.
#include "penstock/base/draft.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <unistd.h>

#include "penstock/base/files.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// A file that its user may not write is not replaced either.
bool may_be_replaced(const fs::path& name) {
  std::error_code ignored;
  const auto there = fs::symlink_status(name, ignored);
  if (there.type() == fs::file_type::not_found) return true;
  return fs::is_regular_file(there) && ::access(name.c_str(), W_OK) == 0;
}

}  // namespace

Draft::Draft(fs::path name) : name_(std::move(name)), part_(name_) {
  if (may_be_replaced(name_)) {
    part_ += ".part";
    out_.open(part_, std::ios::binary | std::ios::trunc);
    if (!out_) part_ = name_;
  }
  if (part_ == name_) {
    out_.clear();
    out_.open(name_, std::ios::binary | std::ios::trunc);
  }
  begun_ = out_.is_open();
}

Draft::~Draft() {
  out_.close();
  give_up();
}

bool Draft::commit() {
  out_.close();  // Only then is it known that all was written.
  std::error_code failed;
  if (out_ && part_ != name_) fs::rename(part_, name_, failed);
  if (!out_ || failed) {
    const int reason = errno;
    give_up();
    errno = reason;
    return false;
  }
  begun_ = false;
  return true;
}

void Draft::give_up() {
  if (std::exchange(begun_, false)) remove_part(part_);
}

}  // namespace penstock
