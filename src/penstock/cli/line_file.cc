// Collects lines up to a block, writes them by the system's own call, and cuts off what is a part.
#include "penstock/cli/line_file.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "penstock/base/files.h"
#include "penstock/base/words.h"
#include "penstock/cli/progress.h"

namespace penstock::cli {
namespace {

constexpr std::size_t kBlock = 4096;  // Bytes; who follows a file need not wait for more.

Error not_written(const std::string& place, int reason, const std::string& what_is = "") {
  return make_error(code_of_errno(reason), place,
                    ": cannot be written: ", std::generic_category().message(reason), what_is);
}

std::uint64_t count_lines(std::string_view text) {
  return static_cast<std::uint64_t>(std::ranges::count(text, '\n'));
}

}  // namespace

struct LineFile::State {
  State(std::string named, int opened) : place(std::move(named)), file(opened) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    static_cast<void>(flush());
    if (!is_standard_output()) ::close(file);
  }

  [[nodiscard]] bool is_standard_output() const { return file == STDOUT_FILENO; }

  Status flush() {
    if (is_standard_output()) make_room_on(stdout);
    std::size_t done = 0;
    while (done < pending.size()) {
      const auto count = ::write(file, pending.data() + done, pending.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return give_up(done, errno);
      done += static_cast<std::size_t>(count);
    }
    size += done;
    lines += count_lines(pending);
    pending.clear();
    return {};
  }

  /// After `done` bytes of what waits.
  Error give_up(std::size_t done, int reason) {
    const auto part = std::string_view(pending).substr(0, done);
    const auto whole = part.substr(0, part.rfind('\n') + 1);  // Nothing, where there is no end.
    size += whole.size();
    lines += count_lines(whole);
    pending.clear();
    if (is_standard_output()) return not_written(place, reason);  // Not this program's alone.
    // A device or a pipe has no end to cut off.
    [[maybe_unused]] const int cut = ::ftruncate(file, static_cast<::off_t>(size));
    return not_written(
        place, reason,
        concat("; ", counted(lines, "frame"), lines == 1 ? " is" : " are", " in it"));
  }

  std::string place;
  int file;
  std::uint64_t size = 0;   ///< Of the file.
  std::uint64_t lines = 0;  ///< In the file.
  std::string pending;      ///< Whole lines, which wait to be written.
};

LineFile::LineFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
LineFile::LineFile(LineFile&&) noexcept = default;
LineFile& LineFile::operator=(LineFile&&) noexcept = default;
LineFile::~LineFile() = default;

Result<LineFile> LineFile::create(const std::filesystem::path& target) {
  if (target == "-") {
    return LineFile(std::make_unique<State>("standard output", STDOUT_FILENO));
  }
  constexpr ::mode_t kAll = 0666;  // Less what the user's mask takes.
  auto place = concat("file '", target.string(), "'");
  const int file = ::open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kAll);
  if (file < 0) return not_written(place, errno);
  return LineFile(std::make_unique<State>(std::move(place), file));
}

Status LineFile::write(std::string_view frame) {
  state_->pending += frame;
  const bool waits = !state_->is_standard_output() && state_->pending.size() < kBlock;
  return waits ? Status() : flush();
}

Status LineFile::flush() {
  return state_->flush();
}

}  // namespace penstock::cli
