// Reads and removes by the C library's calls, which tell of refused memory with an error.
#include "penstock/base/folder.h"

#include <cerrno>
#include <cstdio>
#include <memory>
#include <string_view>

#include <dirent.h>
#include <ftw.h>

namespace penstock {

std::vector<std::string> names_in(const std::filesystem::path& folder, std::error_code& error,
                                  std::size_t most) {
  std::vector<std::string> names;
  const char* path = folder.empty() ? "." : folder.c_str();
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(path), ::closedir);
  if (listing == nullptr) {
    error.assign(errno, std::generic_category());
    return names;
  }
  error.clear();
  while (names.size() < most) {
    errno = 0;
    const dirent* entry = ::readdir(listing.get());
    if (entry == nullptr) {
      if (errno != 0) error.assign(errno, std::generic_category());
      break;
    }
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

void remove_tree(const std::filesystem::path& path) noexcept {
  constexpr int kOpenFolders = 16;
  const auto remove = [](const char* found, const struct stat*, int, FTW*) {
    std::remove(found);
    return 0;
  };
  ::nftw(path.c_str(), remove, kOpenFolders, FTW_DEPTH | FTW_PHYS);
}

}  // namespace penstock
