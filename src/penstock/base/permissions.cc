// Permissions are only ever taken away: what the umask left out stays out.
#include "penstock/base/permissions.h"

#include <system_error>

namespace penstock {

namespace fs = std::filesystem;

void keep_from_others(const fs::path& file, fs::perms given) noexcept {
  const auto withheld = (fs::perms::group_all | fs::perms::others_all) & ~given;
  std::error_code ignored;
  if (withheld == fs::perms::none) return;
  fs::permissions(file, withheld, fs::perm_options::remove, ignored);
}

}  // namespace penstock
