// libzip reads and writes the entries, which are written uncompressed and with a fixed date.
#include "penstock/tensor/npz.h"

#include <list>
#include <memory>
#include <optional>
#include <set>
#include <system_error>

#include <zip.h>

#include "penstock/tensor/npy.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

struct Closer {
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* entry) const { zip_fclose(entry); }
};
using Archive = std::unique_ptr<zip_t, Closer>;
using Entry = std::unique_ptr<zip_file_t, Closer>;

constexpr std::string_view kSuffix = ".npy";
// Deflate cannot pack tighter: a larger declared size is a lie, refused before memory is asked for.
constexpr zip_uint64_t kMostPerByte = 1100;

Result<Archive> open_archive(const fs::path& file, int flags) {
  std::error_code error;
  if (fs::is_directory(file, error)) return invalid_argument("is a folder: expected a .npz file");
  int number = 0;
  Archive archive(zip_open(file.c_str(), flags, &number));
  if (archive) return archive;
  zip_error_t reason;
  zip_error_init_with_code(&reason, number);
  const std::string text = zip_error_strerror(&reason);
  zip_error_fini(&reason);
  if (number == ZIP_ER_NOENT) return not_found("no such file");
  if (number == ZIP_ER_NOZIP || number == ZIP_ER_INCONS) {
    return make_error(Code::kDataLoss, "is not a .npz file (a zip of .npy files): ", text);
  }
  return make_error(Code::kPermissionDenied, "cannot be opened: ", text);
}

Result<Tensor> read_entry(zip_t* archive, const zip_stat_t& info, std::optional<DType> expected) {
  if ((info.valid & ZIP_STAT_COMP_SIZE) != 0 && info.size > (info.comp_size + 1) * kMostPerByte) {
    return make_error(Code::kDataLoss, "declares ", info.size, " bytes, more than its ",
                      info.comp_size, " packed ones can hold");
  }
  Entry entry(zip_fopen_index(archive, info.index, 0));
  if (!entry) return make_error(Code::kDataLoss, "cannot be read: ", zip_strerror(archive));
  const auto source = [&](std::span<std::byte> bytes) -> Status {
    while (!bytes.empty()) {
      const auto got = zip_fread(entry.get(), bytes.data(), bytes.size());
      if (got <= 0) return make_error(Code::kDataLoss, "is truncated or damaged");
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    }
    return {};
  };
  auto tensor = read_npy(source, info.size, expected);
  std::byte end;
  // Reading past the end makes libzip check the checksum.
  if (tensor && zip_fread(entry.get(), &end, 1) != 0) {
    return make_error(Code::kDataLoss, "is damaged: its checksum differs; save the file again");
  }
  return tensor;
}

Result<NamedTensors> read_entries(zip_t* archive, const std::map<std::string, DType>& expected) {
  NamedTensors tensors;
  std::set<std::string> names;
  const auto count = zip_get_num_entries(archive, 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t info;
    zip_stat_init(&info);
    if (zip_stat_index(archive, static_cast<zip_uint64_t>(i), 0, &info) != 0 ||
        (info.valid & ZIP_STAT_NAME) == 0 || (info.valid & ZIP_STAT_SIZE) == 0) {
      return make_error(Code::kDataLoss, "entry ", i, " cannot be read");
    }
    std::string name = info.name;
    if (name.ends_with(kSuffix)) name.resize(name.size() - kSuffix.size());
    if (!names.insert(name).second) {
      return make_error(Code::kDataLoss, "array '", name, "' stands twice");
    }
    const auto known = expected.find(name);
    auto tensor = read_entry(archive, info,
                             known == expected.end() ? std::nullopt : std::optional(known->second));
    if (!tensor) return std::move(tensor).error().within("array '" + name + "'");
    tensors.emplace_back(std::move(name), *std::move(tensor));
  }
  return tensors;
}

Result<NamedTensors> read_archive(const fs::path& file,
                                  const std::map<std::string, DType>& expected) {
  PENSTOCK_TRY(const Archive archive, open_archive(file, ZIP_RDONLY));
  return read_entries(archive.get(), expected);
}

Status add_entry(zip_t* archive, const std::string& name, const std::string& bytes) {
  constexpr time_t kNoTime = 315532800;  // 1980-01-01, the first that a zip can hold.
  zip_source_t* source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
  if (source == nullptr) return make_error(Code::kResourceExhausted, zip_strerror(archive));
  const std::string entry = name + std::string(kSuffix);
  const auto index = zip_file_add(archive, entry.c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    zip_source_free(source);
    return invalid_argument("cannot be added: ", zip_strerror(archive));
  }
  const auto at = static_cast<zip_uint64_t>(index);
  zip_set_file_compression(archive, at, ZIP_CM_STORE, 0);
  zip_file_set_mtime(archive, at, kNoTime, 0);
  return {};
}

Status write_archive(const NamedTensors& tensors, const fs::path& file) {
  std::list<std::string> contents;  // libzip reads them when the archive is closed.
  PENSTOCK_TRY(Archive archive, open_archive(file, ZIP_CREATE | ZIP_TRUNCATE));
  for (const auto& [name, tensor] : tensors) {
    std::string& bytes = contents.emplace_back();
    auto status = write_npy(tensor, [&](std::span<const std::byte> part) -> Status {
      bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
      return {};
    });
    if (status) status = add_entry(archive.get(), name, bytes);
    if (!status) return std::move(status).error().within("array '" + name + "'");
  }
  if (zip_close(archive.get()) != 0) {
    return make_error(Code::kPermissionDenied, "cannot be written: ", zip_strerror(archive.get()));
  }
  static_cast<void>(archive.release());  // Closing freed it.
  return {};
}

}  // namespace

Result<NamedTensors> read_npz(const fs::path& file, const std::map<std::string, DType>& expected) {
  auto tensors = read_archive(file, expected);
  if (!tensors) return std::move(tensors).error().within({Where::kFile, file.string()});
  return tensors;
}

Status write_npz(const NamedTensors& tensors, const fs::path& file) {
  auto status = write_archive(tensors, file);
  if (!status) return std::move(status).error().within({Where::kFile, file.string()});
  return status;
}

}  // namespace penstock
