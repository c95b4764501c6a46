// Writes to a file whose name ends in .tmp, and renames or removes it at the end.
#include "penstock/graph/new_file.h"

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "penstock/tensor/tensor.h"

namespace penstock::graph {

namespace fs = std::filesystem;

NewFile::NewFile(fs::path target) : target_(std::move(target)), draft_(target_.string() + ".tmp") {
  out_.open(draft_, std::ios::binary | std::ios::trunc);
  error_ = errno;
}

NewFile::~NewFile() {
  std::error_code ignored;
  if (!done_) fs::remove(draft_, ignored);
}

Status NewFile::write(std::string_view bytes) {
  out_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  at_ += bytes.size();
  return status();
}

Result<std::uint64_t> NewFile::align(std::size_t alignment) {
  static constexpr char kZeros[Tensor::kAlignment] = {};
  PENSTOCK_CHECK_OK(write({kZeros, (alignment - at_ % alignment) % alignment}));
  return at_;
}

Status NewFile::commit() {
  out_.close();
  PENSTOCK_CHECK_OK(status());
  std::error_code error;
  fs::rename(draft_, target_, error);
  if (error) return refused(error.message(), error.value());
  done_ = true;
  return {};
}

Status NewFile::status() {
  if (out_) return {};
  if (errno != 0) error_ = errno;
  return refused(std::strerror(error_), error_);
}

Error NewFile::refused(const std::string& why, int number) const {
  const Code code = number == EACCES || number == EPERM || number == EROFS
                        ? Code::kPermissionDenied
                        : (number == ENOSPC ? Code::kResourceExhausted : Code::kNotFound);
  return make_error(code, "cannot be written (", why, ")").within({Where::kFile, target_.string()});
}

}  // namespace penstock::graph
