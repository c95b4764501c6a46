// Who may read a file that holds what another file held.
#pragma once

#include <filesystem>

namespace penstock {

/// Takes from group and others what `given` does not give them; the owner keeps all. Where the file
/// system knows no permissions, nothing changes.
void keep_from_others(const std::filesystem::path& file, std::filesystem::perms given) noexcept;

}  // namespace penstock
