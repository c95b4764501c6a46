// Reads resident memory from /proc/self/statm and processor time from getrusage().
#include "penstock/metrics/process.h"

#include <fstream>

#include <sys/resource.h>
#include <unistd.h>

namespace penstock::metrics {
namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

}  // namespace

Process read_process() {
  Process process;
  std::uint64_t all_pages = 0, resident_pages = 0;
  if (std::ifstream file("/proc/self/statm"); file >> all_pages >> resident_pages) {
    process.resident_bytes = resident_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  }
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) {
    process.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }
  return process;
}

void add_process(Families& families) {
  const auto process = read_process();
  families.add(Kind::kGauge, "process_resident_memory_bytes", "Memory that the process has", {},
               static_cast<double>(process.resident_bytes));
  families.add(Kind::kCounter, "process_cpu_seconds_total", "Processor time of the process", {},
               process.cpu_seconds);
}

}  // namespace penstock::metrics
