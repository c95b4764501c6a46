// What a folder holds, listed and removed also where memory is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace penstock {

/// The names of what is in the folder but "." and "..", in the file system's order: all, or the
/// first `most` of a folder that holds more.
///
/// \param error  the system's reason where the folder cannot be read; what was read until then is
///               returned. Cleared where all went well.
/// \throws std::bad_alloc  where the iterators of folders in libstdc++ would end the process
std::vector<std::string> names_in(const std::filesystem::path& folder, std::error_code& error,
                                  std::size_t most = SIZE_MAX);

/// Removes the file, or the folder with all it holds; of a link the link. What cannot be removed
/// stays.
void remove_tree(const std::filesystem::path& path) noexcept;

}  // namespace penstock
