// Uses libzip, and checks paths, count and total size of the entries before it unpacks any.
#include "penstock/plan/zip.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <zip.h>

#include "penstock/base/permissions.h"
#include "penstock/plan/package_files.h"
#include "penstock/plan/paths.h"

namespace penstock::plan {
namespace {

namespace fs = std::filesystem;

// A zip of unknown origin may unpack to 1000 times its size and more. Weights hardly shrink, and
// what is small does no harm.
constexpr zip_uint64_t kMostRatio = 20;
constexpr zip_uint64_t kSmallBytes = 64U << 20U;

// Files and folders together: one entry may ask for a folder with each two bytes of its path.
constexpr std::size_t kMostPlaces = 65536;

constexpr const char* kUnpackIt = "; if you trust it, unpack it and name the folder";

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* entry) const { zip_fclose(entry); }
};
using Archive = std::unique_ptr<zip_t, Discard>;
using Entry = std::unique_ptr<zip_file_t, Discard>;

std::string text_of(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

Result<Archive> open_archive(const fs::path& file, int flags) {
  int code = 0;
  Archive archive(zip_open(file.c_str(), flags, &code));
  if (archive) return archive;
  std::string magic(2, '\0');
  std::ifstream(file, std::ios::binary).read(magic.data(), 2);
  if (code == ZIP_ER_NOZIP && magic != "PK") {
    return invalid_argument(
        "expected a folder or a zip, made by 'penstock split' or 'penstock build', found a file "
        "that is neither");
  }
  return make_error(Code::kDataLoss, "zip '", file.string(), "': ", text_of(code),
                    "; copy the package again");
}

Error damaged(std::string_view name, std::string_view why) {
  return make_error(Code::kDataLoss, "entry '", name, "': ", why, "; copy the package again");
}

Status check_entry(zip_t* archive, const zip_stat_t& info) {
  std::string_view name = info.name;
  if (name.ends_with('/')) name.remove_suffix(1);
  const auto problem = path_problem(name);
  if (!problem.empty())
    return invalid_argument("entry '", info.name, "' ", problem,
                            "; zip the package's folder again");
  zip_uint8_t system = 0;
  zip_uint32_t attributes = 0;
  zip_file_get_external_attributes(archive, info.index, 0, &system, &attributes);
  const auto kind = (attributes >> 16U) & static_cast<zip_uint32_t>(S_IFMT);
  if (system == ZIP_OPSYS_UNIX && kind != 0 && kind != S_IFREG && kind != S_IFDIR) {
    return invalid_argument("entry '", info.name,
                            "' is a link or a special file: expected plain files only");
  }
  return {};
}

Result<std::vector<zip_stat_t>> list_entries(zip_t* archive) {
  std::vector<zip_stat_t> entries;
  std::set<std::string_view> names;
  std::size_t places = 0;
  const auto count = zip_get_num_entries(archive, 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t info;
    zip_stat_init(&info);
    const auto got = zip_stat_index(archive, static_cast<zip_uint64_t>(i), 0, &info);
    if (got != 0 || (info.valid & ZIP_STAT_NAME) == 0 || (info.valid & ZIP_STAT_SIZE) == 0) {
      return damaged(concat("number ", i), "its name or size cannot be read");
    }
    PENSTOCK_CHECK_OK(check_entry(archive, info));
    if (!names.insert(info.name).second) {
      return invalid_argument("entry '", info.name, "' stands twice: expected each path once");
    }
    places += static_cast<std::size_t>(std::ranges::count(std::string_view(info.name), '/')) + 1;
    if (places > kMostPlaces) {
      return invalid_argument("the zip holds more than ", kMostPlaces,
                              " files and folders: expected a package's", kUnpackIt);
    }
    entries.push_back(info);
  }
  return entries;
}

zip_uint64_t total_size(const std::vector<zip_stat_t>& entries) {
  zip_uint64_t total = 0;
  for (const auto& entry : entries) {
    if (__builtin_add_overflow(total, entry.size, &total)) return UINT64_MAX;
  }
  return total;
}

/// Entries that hold more than they declare are refused as they are unpacked.
Status check_ratio(zip_uint64_t total, const fs::path& file) {
  std::error_code error;
  const auto own = fs::file_size(file, error);
  if (error) return file_error(file, "cannot be read", error);
  if (total <= kSmallBytes || total / kMostRatio <= own) return {};
  return invalid_argument("the zip has ", own, " bytes and would unpack to ", total,
                          ": expected at most ", kSmallBytes, " or ", kMostRatio, " times its size",
                          kUnpackIt);
}

Status check_space(zip_uint64_t total, const fs::path& folder) {
  std::error_code error;
  const auto space = fs::space(folder, error);
  if (error || total <= space.available) return {};
  return make_error(Code::kResourceExhausted, "unpacking needs ", total, " bytes, '",
                    folder.parent_path().string(), "' has ", space.available,
                    " free; free some, or set TMPDIR to a larger disk");
}

Status unpack_entry(zip_t* archive, const zip_stat_t& info, const fs::path& folder) {
  const auto target = folder / info.name;
  std::error_code error;
  if (std::string_view(info.name).ends_with('/')) {
    fs::create_directories(target, error);
  } else {
    fs::create_directories(target.parent_path(), error);
  }
  if (error) return file_error(target, "cannot be made", error);
  if (std::string_view(info.name).ends_with('/')) return {};
  Entry entry(zip_fopen_index(archive, info.index, 0));
  if (!entry) return damaged(info.name, zip_strerror(archive));
  std::ofstream out(target, std::ios::binary);
  std::vector<char> block(1U << 20U);
  zip_uint64_t written = 0;
  for (;;) {
    const auto got = zip_fread(entry.get(), block.data(), block.size());
    if (got < 0) return damaged(info.name, zip_file_strerror(entry.get()));
    if (got == 0) break;
    written += static_cast<zip_uint64_t>(got);
    if (written > info.size) return damaged(info.name, "holds more than it declares");
    out.write(block.data(), got);
  }
  if (written != info.size) return damaged(info.name, "is shorter than it declares");
  out.close();
  if (!out)
    return make_error(Code::kResourceExhausted, "cannot be written; is the disk full?")
        .within({Where::kFile, target.string()});
  return {};
}

}  // namespace

Status write_zip(const fs::path& folder, const fs::path& file) {
  PENSTOCK_TRY(auto paths, list_files(folder));
  auto given = fs::perms::all;  // Who may not read a file may not read the zip.
  PENSTOCK_TRY(auto archive, open_archive(file, ZIP_CREATE | ZIP_TRUNCATE));
  constexpr time_t kNoTime = 315532800;  // 1980-01-01, the first that a zip can hold.
  for (const auto& path : paths) {
    std::error_code unknown;
    given &= fs::status(folder / path, unknown).permissions();
    // libzip reads the file when the archive is closed, block by block.
    zip_source_t* source = zip_source_file(archive.get(), (folder / path).c_str(), 0, -1);
    if (source == nullptr) return damaged(path, zip_strerror(archive.get()));
    const auto index = zip_file_add(archive.get(), path.c_str(), source, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
      zip_source_free(source);
      return damaged(path, zip_strerror(archive.get()));
    }
    const auto at = static_cast<zip_uint64_t>(index);
    zip_set_file_compression(archive.get(), at, ZIP_CM_STORE, 0);
    zip_file_set_mtime(archive.get(), at, kNoTime, 0);
  }
  zip_t* closing = archive.release();  // Closing frees it, unless it fails.
  if (zip_close(closing) == 0) {
    keep_from_others(file, given);
    return {};
  }
  archive.reset(closing);
  return make_error(Code::kResourceExhausted, "zip '", file.string(),
                    "': cannot be written: ", zip_strerror(closing));
}

Status unpack_zip(const fs::path& file, const fs::path& folder) {
  std::error_code unknown;
  const auto given = fs::status(file, unknown).permissions();
  PENSTOCK_TRY(auto archive, open_archive(file, ZIP_RDONLY));
  PENSTOCK_TRY(auto entries, list_entries(archive.get()));
  const auto total = total_size(entries);
  PENSTOCK_CHECK_OK(check_ratio(total, file));
  PENSTOCK_CHECK_OK(check_space(total, folder));
  for (const auto& entry : entries) {
    PENSTOCK_CHECK_OK(unpack_entry(archive.get(), entry, folder));
    keep_from_others(folder / entry.name, given);
  }
  return {};
}

bool is_zip_package(const fs::path& file) {
  auto archive = open_archive(file, ZIP_RDONLY);
  if (!archive) return false;
  const auto count = zip_get_num_entries(archive->get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const char* name = zip_get_name(archive->get(), static_cast<zip_uint64_t>(i), 0);
    const std::string_view text = name == nullptr ? "" : name;
    if (text == kPlanFile ||
        (text.ends_with(concat("/", kPlanFile)) && std::ranges::count(text, '/') == 1)) {
      return true;
    }
  }
  return false;
}

}  // namespace penstock::plan
