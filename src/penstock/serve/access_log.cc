// Makes each entry a JSON object on one line and appends it to the file by one write().
#include "penstock/serve/access_log.h"

#include <array>
#include <cerrno>
#include <ctime>
#include <system_error>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace penstock::serve {
namespace {

std::string time_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const std::time_t seconds = milliseconds / 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%FT%T", &parts);
  const std::string fraction = std::to_string(1000 + milliseconds % 1000).substr(1);
  return concat(text.data(), ".", fraction, "Z");
}

Result<int> open_file(const std::string& file) {
  const int descriptor =
      file == "-" ? dup(STDOUT_FILENO)
                  : ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
  if (descriptor >= 0) return descriptor;
  return make_error(Code::kPermissionDenied,
                    "the access log cannot be written: ", std::generic_category().message(errno))
      .within({Where::kFile, file});
}

}  // namespace

Result<std::unique_ptr<AccessLog>> AccessLog::open(const std::string& file) {
  PENSTOCK_TRY(const int descriptor, open_file(file));
  return std::unique_ptr<AccessLog>(new AccessLog(file, descriptor));
}

Status AccessLog::reopen() {
  PENSTOCK_TRY(const int fresh, open_file(file_));
  dup3(fresh, descriptor_, O_CLOEXEC);  // At once: a line goes to one of the two.
  close(fresh);
  return {};
}

AccessLog::~AccessLog() {
  close(descriptor_);
}

void AccessLog::write(const AccessEntry& entry) {
  nlohmann::ordered_json line = {{"time", time_now()},
                                 {"protocol", entry.protocol},
                                 {"peer", entry.peer},
                                 {"method", entry.method},
                                 {"target", entry.target},
                                 {"status", entry.status},
                                 {"request_bytes", entry.request_bytes},
                                 {"response_bytes", entry.response_bytes},
                                 {"duration_us", entry.duration.count() / 1000}};
  if (!entry.client.empty()) line["client"] = entry.client;
  for (const auto& [name, value] : entry.notes) line[name] = value;
  // A client's own bytes may be no UTF-8, and must not begin a line of their own.
  const auto text =
      line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  [[maybe_unused]] const auto written = ::write(descriptor_, text.data(), text.size());
}

}  // namespace penstock::serve
