// Linux calls for affinity, idle scheduling, thread lists and names; CPU modes for denormals.
#include "penstock/device/affinity.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <limits>
#include <memory>

#include <dirent.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "penstock/device/device.h"

namespace penstock::device {
namespace {

// Machines of more than CPU_SETSIZE processors need a set sized at run time.
constexpr int kMaxCpus = 8192;

constexpr std::size_t kSetBytes = CPU_ALLOC_SIZE(kMaxCpus);
using CpuSet = std::array<cpu_set_t, kSetBytes / sizeof(cpu_set_t)>;

// The kernel lists a process's threads here in the order in which they were made. A position in the
// folder is a number of entries.
constexpr const char* kThreads = "/proc/self/task";
constexpr long kOtherEntries = 2;  // "." and "..", which come first.

/// The process's threads but the first `skipped`.
std::vector<int> threads_from(long skipped) {
  std::vector<int> threads;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(kThreads), closedir);
  if (folder == nullptr) return threads;
  if (skipped > 0) seekdir(folder.get(), kOtherEntries + skipped);
  while (const dirent* entry = readdir(folder.get())) {
    const long tid = std::strtol(entry->d_name, nullptr, 10);
    if (tid > 0) threads.push_back(static_cast<int>(tid));
  }
  return threads;
}

}  // namespace

Status pin_this_thread(const std::vector<int>& cpus) {
  CpuSet mask{};
  for (const int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), kSetBytes, mask.data());
  if (sched_setaffinity(0, kSetBytes, mask.data()) == 0) return {};
  const auto code = errno == EPERM ? Code::kPermissionDenied : Code::kInvalidArgument;
  const char* reason = std::strerror(errno);
  return make_error(code, "cannot run on ", to_string(Device{.host = {}, .cpus = cpus}), ": ",
                    reason);
}

Status take_what_is_idle() {
  const sched_param none{};
  if (sched_setscheduler(0, SCHED_IDLE, &none) == 0) return {};
  return make_error(Code::kPermissionDenied,
                    "cannot run where others leave room: ", std::strerror(errno));
}

std::vector<int> cpus_of_thread(int tid) {
  using Word = unsigned long;
  constexpr int kBits = std::numeric_limits<Word>::digits;
  std::array<Word, kSetBytes / sizeof(Word)> mask{};
  std::vector<int> cpus;
  // The kernel tells how much of the set it has written: on most machines a word.
  const long bytes = syscall(SYS_sched_getaffinity, tid, sizeof(mask), mask.data());
  for (int word = 0; word < bytes / static_cast<long>(sizeof(Word)); ++word) {
    for (Word left = mask[static_cast<std::size_t>(word)]; left != 0; left &= left - 1) {
      cpus.push_back(word * kBits + std::countr_zero(left));
    }
  }
  return cpus;
}

int this_thread_id() {
  return static_cast<int>(syscall(SYS_gettid));
}

double computed_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void name_this_thread(const std::string& name) {
  prctl(PR_SET_NAME, name.substr(0, 15).c_str());
}

std::string name_of_thread(int tid) {
  std::ifstream file(concat(kThreads, "/", tid, "/comm"));
  std::string name;
  std::getline(file, name);
  return name;
}

std::vector<int> threads_after(int tid) {
  struct stat folder{};
  if (stat(kThreads, &folder) != 0) return {};
  const long count = static_cast<long>(folder.st_nlink) - kOtherEntries;
  // Mostly a few threads are younger: blocks of the last ones are read until one holds `tid`.
  for (long block = 64;; block *= 2) {
    auto threads = threads_from(count - block);
    const auto found = std::ranges::find(threads, tid);
    if (found == threads.end() && block < count) continue;
    if (found != threads.end()) threads.erase(threads.begin(), found + 1);
    return threads;
  }
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
