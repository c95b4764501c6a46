// Maps files into memory, each once, and refuses paths that leave the folder of the model.
#include "penstock/graph/external_data.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <tuple>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/base/near_names.h"
#include "penstock/base/words.h"
#include "penstock/graph/external_files.h"
#include "penstock/graph/proto.h"
#include "penstock/graph/wire.h"

namespace penstock::graph {
namespace {

namespace fs = std::filesystem;

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Shape and dtype alone, of a tensor whose numbers are elsewhere.
Result<std::size_t> bytes_needed(const onnx::TensorProto& proto) {
  const auto dtype = static_cast<DType>(proto.data_type());
  const bool known = proto.data_type() > 0 && proto.data_type() <= static_cast<int>(DType::kI2);
  const auto bytes =
      known ? checked_bytes(dtype, {proto.dims().begin(), proto.dims().end()}) : std::nullopt;
  if (!bytes || dtype == DType::kString) {
    return make_error(Code::kDataLoss,
                      "expected numbers of a known type and shape, found element type ",
                      proto.data_type(), " with ", counted(proto.dims_size(), "dimension"));
  }
  return *bytes;
}

bool within(const fs::path& inner, const fs::path& outer) {
  const auto [end, ignored] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return end == outer.end();
}

/// Mappings that live: a file that is imported in two forms is mapped, and hashed, once.
class Mappings {
 public:
  /// What is mapped of a file that nobody has written to for a while; null: nothing, or it may be
  /// written again within a tick of the file system's clock.
  std::shared_ptr<const MappedFile> find(const struct stat& status) {
    const std::scoped_lock lock(mutex_);
    const auto found = files_.find(key_of(status));
    return found == files_.end() || !has_settled(status) ? nullptr : found->second.lock();
  }

  void keep(const struct stat& status, const std::shared_ptr<const MappedFile>& file) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(files_, [](const auto& entry) { return entry.second.expired(); });
    files_.insert_or_assign(key_of(status), file);
  }

 private:
  using Key = std::tuple<dev_t, ino_t, off_t, std::int64_t>;
  static constexpr std::int64_t kSecond = 1'000'000'000;

  static std::int64_t changed_ns(const struct stat& status) {
    return status.st_mtim.tv_sec * kSecond + status.st_mtim.tv_nsec;
  }
  static Key key_of(const struct stat& status) {
    return {status.st_dev, status.st_ino, status.st_size, changed_ns(status)};
  }
  static bool has_settled(const struct stat& status) {
    const std::chrono::nanoseconds now = std::chrono::system_clock::now().time_since_epoch();
    return now.count() - changed_ns(status) > kSecond;
  }

  std::mutex mutex_;
  std::map<Key, std::weak_ptr<const MappedFile>> files_;
};

}  // namespace

Result<fs::path> resolve_location(const fs::path& folder, const std::string& location) {
  const fs::path relative(location);
  const auto straight = relative.lexically_normal();
  const bool climbs = !straight.empty() && *straight.begin() == "..";
  if (location.empty() || relative.is_absolute() || climbs ||
      location.find('\0') != std::string::npos) {
    return invalid_argument("expected external data in the model's folder, found location '",
                            location, "'; move the file beside the model");
  }
  std::error_code error;
  const auto target = fs::canonical(folder / relative, error);
  if (error) {
    return not_found("its external data file '", location, "' is not in the model's folder (",
                     error.message(), "); put it beside the model");
  }
  const auto home = fs::canonical(folder, error);
  if (error || !within(target, home)) {
    return invalid_argument("expected external data in the model's folder, found '", location,
                            "', a link that leads outside; copy the file beside the model");
  }
  return target;
}

namespace {

/// `why`: of errno.
Error cannot_read(const fs::path& file, int why) {
  const auto near = why == ENOENT ? did_you_mean_file(file) : "";
  const auto told =
      why == ENOENT   ? not_found("no such file", near.empty() ? "; check the path" : near)
      : why == EACCES ? make_error(Code::kPermissionDenied, "this user may not read it")
                      : not_found("cannot be read: ", std::strerror(why));
  return Error(told).within({Where::kFile, file.string()});
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const fs::path& file) {
  static Mappings mappings;
  struct stat status{};
  if (::stat(file.c_str(), &status) != 0) {
    return cannot_read(file, errno);
  }
  if (!S_ISREG(status.st_mode)) {
    return not_found("expected a file, found ",
                     S_ISDIR(status.st_mode) ? "a folder" : "a device or a pipe")
        .within({Where::kFile, file.string()});
  }
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0 || ::fstat(descriptor, &status) != 0) {
    const int why = errno;
    if (descriptor >= 0) ::close(descriptor);
    return cannot_read(file, why);
  }
  if (auto known = mappings.find(status)) {
    ::close(descriptor);
    return known;
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  void* data = nullptr;
  if (size > 0) data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (data == MAP_FAILED) {
    const int why = errno;
    ::close(descriptor);
    return make_error(Code::kResourceExhausted, "cannot be mapped (", std::strerror(why), ")")
        .within({Where::kFile, file.string()});
  }
  const std::shared_ptr<const MappedFile> mapped(
      new MappedFile(descriptor, static_cast<char*>(data), size));
  mappings.keep(status, mapped);
  return mapped;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
  ::close(descriptor_);
}

bool MappedFile::read(std::size_t offset, std::size_t size, void* to) const {
  auto* out = static_cast<char*>(to);
  while (size > 0) {
    const auto done = ::pread(descriptor_, out, size, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    out += done;
    offset += static_cast<std::size_t>(done);
    size -= static_cast<std::size_t>(done);
  }
  return true;
}

Result<Tensor> DataReader::read(const onnx::TensorProto& proto) {
  if (proto.data_location() != onnx::TensorProto::EXTERNAL) return tensor_of(proto);
  auto tensor = [&]() -> Result<Tensor> {
    for (const auto& entry : proto.external_data()) {
      if (entry.key() == kOwnBytesKey) return read_own(proto, entry.value());
    }
    return read_external(proto);
  }();
  if (tensor) return tensor;
  return std::move(tensor).error().within({Where::kTensor, proto.name()});
}

Status DataReader::make_inline(onnx::TensorProto& proto) {
  if (proto.data_location() != onnx::TensorProto::EXTERNAL) return {};
  PENSTOCK_TRY(const Tensor tensor, read(proto));
  proto.clear_external_data();
  proto.clear_data_location();
  if (tensor.bytes() > 0) proto.set_raw_data(tensor.data(), tensor.bytes());
  return {};
}

Result<DataReader::Place> DataReader::place_of(const onnx::TensorProto& proto) {
  Place place;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") place.location = entry.value();
    if (entry.key() != "offset" && entry.key() != "length") continue;
    const auto number = parse_number(entry.value());
    if (!number) {
      return invalid_argument("expected a number as ", entry.key(),
                              " of its external data, found '", entry.value(), "'");
    }
    if (entry.key() == "offset") place.offset = *number;
    // As in ONNX Runtime, 0 is as good as none: as many bytes as the shape needs.
    if (entry.key() == "length" && *number > 0) place.length = *number;
  }
  return place;
}

Result<Tensor> DataReader::read_own(const onnx::TensorProto& proto, std::string_view place) const {
  PENSTOCK_TRY(const std::size_t needed, bytes_needed(proto));
  const auto comma = place.find(',');
  const auto offset = parse_number(place.substr(0, comma));
  const auto size =
      comma == std::string_view::npos ? std::nullopt : parse_number(place.substr(comma + 1));
  if (!offset || !size || *offset > bytes_.size() || *size > bytes_.size() - *offset) {
    return make_error(Code::kDataLoss, "its data do not lie in the file");
  }
  if (*size < needed) {
    return make_error(Code::kDataLoss, "its shape needs ", counted(needed, "byte"), ", found ",
                      *size, "; export the model again");
  }
  PENSTOCK_TRY(Tensor tensor, uninitialised(static_cast<DType>(proto.data_type()),
                                            {proto.dims().begin(), proto.dims().end()}));
  if (!file_) {
    std::memcpy(tensor.data(), bytes_.data() + *offset, needed);
  } else if (!file_->read(*offset, needed, tensor.data())) {
    return make_error(Code::kDataLoss, "the file could not be read to its end");
  }
  return tensor;
}

Result<Tensor> DataReader::read_external(const onnx::TensorProto& proto) {
  PENSTOCK_TRY(const std::size_t needed, bytes_needed(proto));
  PENSTOCK_TRY(const Place place, place_of(proto));
  PENSTOCK_TRY(const std::shared_ptr<const MappedFile> file, open(place.location));
  const auto size = file->bytes().size();
  if (place.length && *place.length != needed) {
    return make_error(Code::kDataLoss, "expected ", counted(needed, "byte"),
                      " for its shape, found length ", *place.length, " of external data");
  }
  if (place.offset > size || needed > size - place.offset) {
    return make_error(Code::kDataLoss, "expected ", counted(needed, "byte"), " at offset ",
                      place.offset, " of '", place.location, "', found a file of ",
                      counted(size, "byte"), "; fetch the file again");
  }
  const auto dtype = static_cast<DType>(proto.data_type());
  std::vector<std::int64_t> dims(proto.dims().begin(), proto.dims().end());
  const char* at = file->bytes().data() + place.offset;
  const auto alignment = std::clamp<std::size_t>(bits_of(dtype) / 8, 1, 8);
  if (place.offset % alignment == 0) {
    // Nothing writes through a constant; the mapping is read-only in any case.
    return Tensor::view(dtype, std::move(dims), const_cast<char*>(at),
                        file);  // NOLINT(*-const-cast)
  }
  PENSTOCK_TRY(Tensor tensor, uninitialised(dtype, std::move(dims)));
  std::memcpy(tensor.data(), at, needed);
  return tensor;
}

Result<std::shared_ptr<const MappedFile>> DataReader::open(const std::string& location) {
  if (folder_.empty()) {
    return invalid_argument("its data are in the file '", location,
                            "', but the model has no folder; import it from its file");
  }
  if (const auto known = files_.find(location); known != files_.end()) return known->second;
  PENSTOCK_TRY(const fs::path path, resolve_location(folder_, location));
  PENSTOCK_TRY(auto file, MappedFile::open(path));
  files_.emplace(location, file);
  return file;
}

}  // namespace penstock::graph
