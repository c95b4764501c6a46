#include "penstock/device/affinity.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace penstock::device {
namespace {

// Machines of more than CPU_SETSIZE processors need a set sized at run time.
constexpr int kMaxCpus = 8192;

struct CpuSet {
  cpu_set_t* set = CPU_ALLOC(kMaxCpus);
  std::size_t bytes = CPU_ALLOC_SIZE(kMaxCpus);
  CpuSet() { CPU_ZERO_S(bytes, set); }
  ~CpuSet() { CPU_FREE(set); }
  CpuSet(const CpuSet&) = delete;
  CpuSet& operator=(const CpuSet&) = delete;
};

}  // namespace

Status pin_this_thread(const std::vector<int>& cpus) {
  CpuSet mask;
  for (const int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), mask.bytes, mask.set);
  if (sched_setaffinity(0, mask.bytes, mask.set) == 0) return {};
  const auto code = errno == EPERM ? Code::kPermissionDenied : Code::kInvalidArgument;
  return make_error(code, "cannot run on cpu ",
                    join(cpus, "+", [](int c) { return std::to_string(c); }), ": ",
                    std::strerror(errno));
}

std::vector<int> cpus_of_thread(int tid) {
  CpuSet mask;
  std::vector<int> cpus;
  if (sched_getaffinity(tid, mask.bytes, mask.set) != 0) return cpus;
  for (int cpu = 0; cpu < kMaxCpus; ++cpu) {
    if (CPU_ISSET_S(static_cast<std::size_t>(cpu), mask.bytes, mask.set)) cpus.push_back(cpu);
  }
  return cpus;
}

int this_thread_id() {
  return static_cast<int>(syscall(SYS_gettid));
}

void name_this_thread(const std::string& name) {
  prctl(PR_SET_NAME, name.substr(0, 15).c_str());
}

std::vector<int> threads_named(const std::string& name) {
  std::vector<int> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
    std::ifstream file(entry.path() / "comm");
    std::string line;
    std::getline(file, line);
    const int tid = static_cast<int>(std::strtol(entry.path().filename().c_str(), nullptr, 10));
    if (line == name.substr(0, 15) && tid != this_thread_id()) found.push_back(tid);
  }
  return found;
}

#if defined(__SSE__)
// MXCSR: bit 15 flushes results to zero, bit 6 takes inputs as zero.
constexpr unsigned kFlushBits = 0x8040;
void set_flush_denormals(bool on) {
  _mm_setcsr(on ? _mm_getcsr() | kFlushBits : _mm_getcsr() & ~kFlushBits);
}
bool flush_denormals() {
  return (_mm_getcsr() & kFlushBits) == kFlushBits;
}
#elif defined(__aarch64__)
constexpr unsigned long kFlushBits = 1UL << 24U;  // FPCR.FZ
void set_flush_denormals(bool on) {
  unsigned long fpcr = 0;
  asm volatile("mrs %0, fpcr" : "=r"(fpcr));
  fpcr = on ? fpcr | kFlushBits : fpcr & ~kFlushBits;
  asm volatile("msr fpcr, %0" : : "r"(fpcr));
}
bool flush_denormals() {
  unsigned long fpcr = 0;
  asm volatile("mrs %0, fpcr" : "=r"(fpcr));
  return (fpcr & kFlushBits) != 0;
}
#else
void set_flush_denormals(bool) {}
bool flush_denormals() {
  return false;
}
#endif

}  // namespace penstock::device
