// Folders and files, made with an error that is a sentence.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "penstock/base/result.h"

namespace penstock {

/// Makes the folder and those above it where they are missing.
/// \error kPermissionDenied  with the system's reason
Status make_folder(const std::filesystem::path& folder);

/// What an errno means where a file is opened or written: kNotFound, kResourceExhausted or
/// kPermissionDenied.
Code code_of_errno(int number);

/// Writes the text as the file. Where that fails, no part of it stays.
/// \error of code_of_errno(), with the system's reason
Status write_whole_file(const std::filesystem::path& file, std::string_view text);
/// Removes what was written of a file that could not be written to its end. Devices and pipes stay.
void remove_part(const std::filesystem::path& file);

/// Whether writing the file would lose another one: what is there, and not empty, begins otherwise
/// than `begin`, as each file of its kind does behind blanks, in letters of either case. Devices
/// and pipes lose nothing. `begin` empty: nothing is known of the kind.
bool would_lose(const std::filesystem::path& file, std::string_view begin);

/// A folder of our own among the temporary ones, removed with the last reference, or at the exit.
///
/// The first in a process also removes those that processes of the same user left which were
/// killed; not where the file system knows no locks. A forked child that lives on keeps its
/// parent's.
/// \error kPermissionDenied  none can be made: set TMPDIR.
Result<std::shared_ptr<const std::filesystem::path>> make_temporary_folder();

/// The file system that has the temporary folders (TMPDIR).
struct TemporarySpace {
  std::optional<std::uint64_t> free_bytes;  ///< That this user may take; empty: nothing tells.
  bool in_memory = false;                   ///< What is written there takes memory (tmpfs).
};
TemporarySpace temporary_space();

}  // namespace penstock
