// Package: a folder (or a zip of it) with plan.json, stages/*.onnx and the hash of each file.
#pragma once

#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/plan/plan.h"

namespace penstock::plan {

/// A loaded package. For a zip, the unpacked private copy lives as long as this.
struct Package {
  Plan plan;
  std::filesystem::path folder;       ///< Where `plan`'s relative paths start.
  std::shared_ptr<const void> files;  ///< Keeps the unpacked copy of a zip; null for a folder.
};

/// The package's libraries of custom operators.
std::vector<std::filesystem::path> custom_op_files(const Package& package);

/// Writes a package. Usage: create(), write the stage models under folder(), then commit().
/// Everything goes to a temporary sibling folder first: a failed write leaves nothing behind.
class PackageWriter {
 public:
  /// `target`: a folder, or a file ending in ".zip".
  /// \error kAlreadyExists  the target is there and is not a package (a package is replaced).
  /// \error kNotFound, kPermissionDenied  of the folder that is to hold it.
  static Result<PackageWriter> create(const std::filesystem::path& target);
  PackageWriter(PackageWriter&&) noexcept;
  PackageWriter& operator=(PackageWriter&&) noexcept;
  ~PackageWriter();  ///< Without commit(): removes what was written.

  [[nodiscard]] const std::filesystem::path& folder() const;
  /// Hashes every file under folder() but those whose SHA-256 is `known`, fills plan.files, writes
  /// plan.json, moves into place: in one step where the file system can swap, so that a reader sees
  /// the old package or the new one.
  /// \returns the plan as written. Call once.
  /// \error kInvalidArgument   validate(), or the plan names a file that is not there.
  Result<Plan> commit(Plan plan, const std::map<std::string, std::string>& known = {});

 private:
  struct State;
  explicit PackageWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Whether create() would succeed there: makes its temporary folder and removes it. For work that
/// is long before it writes.
/// \error as create()
Status check_target(const std::filesystem::path& target);

/// Whether results may be written there, a file or a folder of them: a package holds its own files
/// alone.
/// \error kInvalidArgument  the target is a package or lies in one.
Status check_results(const std::filesystem::path& target);

/// Reads plan.json, validates it, and checks the hash of every file. A zip is unpacked into a
/// private folder among the temporary ones (TMPDIR). plan.json itself has no hash: to edit it, for
/// instance a device or a capacity, is legitimate. A file that it does not list is refused.
/// \error kNotFound         no such folder or zip, or no plan.json in it.
/// \error kDataLoss         a file is missing or its hash differs: names it, expected and found.
/// \error kInvalidArgument  a path leads outside the package; plan.json's own errors; a zip that
///                          unpacks to over 64 MiB and over 20 times its size, or to over 65,536
///                          files and folders.
Result<Package> load_package(const std::filesystem::path& path);

/// What was thrown while a package was read, written or started.
/// \returns kResourceExhausted for std::bad_alloc, else kInternal; of that package
Error thrown(const std::filesystem::path& package, const std::exception& error) noexcept;

}  // namespace penstock::plan
