// Writes in a temporary folder that is then renamed, and checks all hashes when it loads.
#include "penstock/plan/package.h"

#include <fstream>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "penstock/base/ending.h"
#include "penstock/base/files.h"
#include "penstock/base/folder.h"
#include "penstock/base/near_names.h"
#include "penstock/plan/document.h"
#include "penstock/plan/package_files.h"
#include "penstock/plan/plan_json.h"
#include "penstock/plan/zip.h"

namespace penstock::plan {

namespace fs = std::filesystem;

/// Removes a folder with all it holds when destroyed.
class Scratch {
 public:
  explicit Scratch(fs::path path) : path_(std::move(path)) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { remove_tree(path_); }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

namespace {

bool is_zip_name(const fs::path& path) {
  return ending_of(path) == ".zip";
}

/// "out/" means "out": a sibling must have the same parent.
fs::path plain_target(const fs::path& target) {
  auto path = fs::absolute(target).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

Result<std::string> read_text(const fs::path& file) {
  constexpr std::uintmax_t kMostBytes = 256U << 20U;
  std::error_code error;
  const auto size = fs::file_size(file, error);
  if (error) return file_error(file, "cannot be read", error);
  if (size > kMostBytes) {
    return invalid_argument("'", file.string(), "': expected at most ", kMostBytes,
                            " bytes, found ", size);
  }
  std::ifstream in(file, std::ios::binary);
  std::string text(static_cast<std::size_t>(size), '\0');
  in.read(text.data(), static_cast<std::streamsize>(size));
  if (in.gcount() == static_cast<std::streamsize>(size)) return text;
  return make_error(Code::kPermissionDenied, "'", file.string(), "': cannot be read");
}

/// Whether the folder holds a plan.json of ours; others may call a file so too.
bool is_package_folder(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_regular_file(folder / kPlanFile, ignored)) return false;
  const auto text = read_text(folder / kPlanFile);
  return text && (*text).find("\"penstock_plan\"") != std::string::npos;
}

/// The package that the folder is or lies in.
std::optional<fs::path> package_around(const fs::path& inner) {
  std::error_code ignored;
  for (auto folder = fs::weakly_canonical(fs::absolute(inner, ignored), ignored); !folder.empty();
       folder = folder.parent_path()) {
    if (is_package_folder(folder)) return folder;
    if (folder == folder.root_path()) break;
  }
  return std::nullopt;
}

/// A file more would make the outer package wrong: its own are all listed.
Status check_outside(const fs::path& target) {
  std::error_code ignored;
  const auto outer = package_around(fs::absolute(target, ignored).parent_path());
  if (!outer) return {};
  return invalid_argument("'", target.string(), "': lies inside the package '", outer->string(),
                          "'; choose a place outside it");
}

/// What else lies there would go with the package.
Status check_holds_no_other(const fs::path& target) {
  PENSTOCK_TRY(const auto text, read_text(target / kPlanFile));
  const auto plan = Document::parse(text);  // Of a damaged one no file is known to be its own.
  const auto is_own = [&](const std::string& path) {
    return plan && plan->value().is_object() && plan->value().contains("files") &&
           plan->value()["files"].contains(path);
  };
  PENSTOCK_TRY(const auto paths, list_files(target));
  for (const auto& path : paths) {
    if (path == kPlanFile || is_own(path)) continue;
    return make_error(Code::kAlreadyExists, "'", target.string(), "': has '", path,
                      "', which is no file of the package there and would be lost with it; move it "
                      "away, or choose another name");
  }
  return {};
}

Status check_replaceable(const fs::path& target) {
  std::error_code error;
  const auto status = fs::symlink_status(target, error);
  if (!fs::exists(status)) return {};
  const auto refuse = [&](std::string_view expected) {
    return make_error(Code::kAlreadyExists, "'", target.string(), "' exists and is not ", expected,
                      ": only a package is replaced; choose another name or remove it");
  };
  if (is_zip_name(target)) {
    const bool package = fs::is_regular_file(status) && is_zip_package(target);
    return package ? Status() : refuse("a zip of a package");
  }
  if (!fs::is_directory(status)) return refuse("a package folder");
  if (is_package_folder(target)) return check_holds_no_other(target);
  if (fs::is_empty(target, error)) return {};
  return refuse("a package folder (no plan.json of a package in it)");
}

/// Swaps two folders in one step where the file system can; else there is a moment without.
Status put_folder(const fs::path& fresh, const fs::path& target) {
  std::error_code error;
  if (!fs::exists(target, error)) {
    fs::rename(fresh, target, error);
    return error ? Status(file_error(target, "cannot be put in place", error)) : Status();
  }
#ifdef SYS_renameat2
  constexpr unsigned kExchange = 2;
  if (syscall(SYS_renameat2, AT_FDCWD, fresh.c_str(), AT_FDCWD, target.c_str(), kExchange) == 0) {
    return {};  // What was there goes with the scratch folder.
  }
#endif
  PENSTOCK_TRY(const auto aside, make_private_folder(target.parent_path(), "penstock-old"));
  const Scratch cleaner(aside);
  fs::rename(target, aside / "package", error);
  if (error) return file_error(target, "cannot be replaced", error);
  fs::rename(fresh, target, error);
  if (!error) return {};
  const auto cause = error;
  fs::rename(aside / "package", target, error);
  return file_error(target, "cannot be put in place", cause);
}

Status write_text(const fs::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  if (out) return {};
  return make_error(Code::kResourceExhausted, "cannot be written; is the disk full?")
      .within({Where::kFile, file.string()});
}

/// What the plan loads must be under a hash.
Status check_listed(const Plan& plan) {
  const auto check = [&](const std::string& path) -> Status {
    if (plan.files.contains(path)) return {};
    return invalid_argument(
               "the plan uses it and 'files' does not list its "
               "hash; split the model again")
        .within({Where::kFile, path});
  };
  for (const auto& stage : plan.stages) {
    for (const auto& partition : stage.partitions) {
      if (!partition.model.empty()) PENSTOCK_CHECK_OK(check(partition.model));
      for (const auto& batched : partition.batched) PENSTOCK_CHECK_OK(check(batched.model));
    }
  }
  for (const auto& parameter : plan.parameters) PENSTOCK_CHECK_OK(check(parameter.file));
  for (const auto& input : plan.bound_inputs) {
    if (!input.file.empty()) PENSTOCK_CHECK_OK(check(input.file));
  }
  for (const auto& path : plan.custom_ops) PENSTOCK_CHECK_OK(check(path));
  for (const auto& state : plan.states) {
    if (!state.initial.empty()) PENSTOCK_CHECK_OK(check(state.initial));
  }
  return {};
}

Result<Plan> load_folder(const fs::path& folder) {
  std::error_code ignored;
  const auto found = fs::symlink_status(folder / kPlanFile, ignored);
  if (!fs::exists(found)) {
    return not_found(
        "no plan.json in it: expected a package, which 'penstock build' or 'split' makes");
  }
  if (!fs::is_regular_file(found)) {
    return invalid_argument("plan.json is a link or a special file: expected a plain file");
  }
  PENSTOCK_TRY(const auto text, read_text(folder / kPlanFile));
  auto plan = from_json(text);
  if (!plan) {
    const bool version = plan.error().code == Code::kFailedPrecondition;  // It says what to do.
    return std::move(plan).error().within(kPlanFile).adding(
        version ? "" : "; mend the file, or split the model again");
  }
  PENSTOCK_CHECK_OK(check_listed(*plan));
  PENSTOCK_CHECK_OK(check_files(folder, plan->files));
  return plan;
}

/// The unpacked folder itself, or its only folder where the zip was made of the folder's name.
fs::path top_of(const fs::path& folder) {
  std::error_code ignored;
  if (fs::exists(folder / kPlanFile, ignored)) return folder;
  const auto names = names_in(folder, ignored, 2);
  if (names.size() != 1 || !fs::is_directory(folder / names.front(), ignored)) return folder;
  return folder / names.front();
}

Result<Package> load_zip(const fs::path& file) {
  PENSTOCK_TRY(auto folder, make_temporary_folder());
  PENSTOCK_CHECK_OK(unpack_zip(file, *folder));
  const auto top = top_of(*folder);
  PENSTOCK_TRY(auto plan, load_folder(top));
  return Package{std::move(plan), top, std::move(folder)};
}

Result<Package> load(const fs::path& path) {
  std::error_code error;
  const auto status = fs::status(path, error);
  if (!fs::exists(status)) return not_found("no such folder or zip", did_you_mean_file(path));
  if (!fs::is_directory(status)) return load_zip(path);
  PENSTOCK_TRY(auto plan, load_folder(path));
  return Package{std::move(plan), path, nullptr};
}

}  // namespace

struct PackageWriter::State {
  State(fs::path where, fs::path made) : target(std::move(where)), scratch(std::move(made)) {}
  fs::path target;
  Scratch scratch;  // Holds "package" and, for a zip, "package.zip".
  fs::path folder = scratch.path() / "package";
};

PackageWriter::PackageWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
PackageWriter::PackageWriter(PackageWriter&&) noexcept = default;
PackageWriter& PackageWriter::operator=(PackageWriter&&) noexcept = default;
PackageWriter::~PackageWriter() = default;

std::vector<fs::path> custom_op_files(const Package& package) {
  std::vector<fs::path> files;
  for (const auto& file : package.plan.custom_ops) files.push_back(package.folder / file);
  return files;
}

Result<PackageWriter> PackageWriter::create(const fs::path& target) {
  try {
    if (target.empty()) return invalid_argument("package: expected a path, found an empty one");
    if (target == "-") {
      return invalid_argument(
          "package: expected a folder or a file ending in .zip, found '-': a package is not "
          "written "
          "to standard output");
    }
    const auto path = plain_target(target);
    PENSTOCK_CHECK_OK(check_outside(path));
    PENSTOCK_CHECK_OK(check_replaceable(path));
    auto made = make_private_folder(path.parent_path(), path.filename().string());
    if (!made) {
      return std::move(made).error().within(concat("'", target.string(), "' cannot be made"));
    }
    auto state = std::make_unique<State>(path, *std::move(made));
    std::error_code error;
    fs::create_directory(state->folder, error);
    if (error) return file_error(state->folder, "cannot be made", error);
    return PackageWriter(std::move(state));
  } catch (const std::exception& error) {
    return thrown(target, error);
  }
}

Status check_results(const fs::path& target) {
  std::error_code unknown;
  if (is_zip_name(target) && fs::is_regular_file(target, unknown) && is_zip_package(target)) {
    return invalid_argument("'", target.string(),
                            "': results would take the package's place; choose another name");
  }
  const auto outer = package_around(target);
  if (!outer) return {};
  return invalid_argument("'", target.string(), "': results would lie in the package '",
                          outer->string(),
                          "' (it has a plan.json) and spoil it; choose a place outside it");
}

Status check_target(const fs::path& target) {
  const auto trial = PackageWriter::create(target);
  return trial ? Status() : Status(trial.error());
}

const fs::path& PackageWriter::folder() const {
  return state_->folder;
}

Result<Plan> PackageWriter::commit(Plan plan, const std::map<std::string, std::string>& known) {
  const auto& state = *state_;
  try {
    PENSTOCK_TRY(plan.files, hash_files(state.folder, known));
    PENSTOCK_CHECK_OK(validate(plan));
    PENSTOCK_CHECK_OK(check_listed(plan));
    PENSTOCK_CHECK_OK(write_text(state.folder / kPlanFile, to_json(plan)));
    PENSTOCK_CHECK_OK(check_replaceable(state.target));
    if (!is_zip_name(state.target)) {
      PENSTOCK_CHECK_OK(put_folder(state.folder, state.target));
      return plan;
    }
    const auto zip = state.scratch.path() / "package.zip";
    PENSTOCK_CHECK_OK(write_zip(state.folder, zip));
    std::error_code error;
    fs::rename(zip, state.target, error);
    if (error) return file_error(state.target, "cannot be put in place", error);
    return plan;
  } catch (const std::exception& error) {
    return thrown(state.target, error);
  }
}

Error thrown(const fs::path& package, const std::exception& error) noexcept {
  try {
    auto told = dynamic_cast<const std::bad_alloc*>(&error) != nullptr
                    ? make_error(Code::kResourceExhausted,
                                 "out of memory; raise the limit of memory (ulimit -v)")
                    : internal_error(error.what());
    return std::move(told).within({Where::kPackage, package.string()});
  } catch (...) {  // There is none for the sentence either.
    return out_of_memory();
  }
}

Result<Package> load_package(const fs::path& path) {
  try {
    auto package = load(path);
    if (package) return package;
    return std::move(package).error().within({Where::kPackage, path.string()});
  } catch (const std::exception& error) {
    return thrown(path, error);
  }
}

}  // namespace penstock::plan
