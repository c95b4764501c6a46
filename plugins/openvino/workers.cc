#include "workers.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

#include <sched.h>

#include "penstock/device/affinity.h"

namespace penstock::openvino {
namespace {

// Machines of more than CPU_SETSIZE processors need a set sized at run time.
constexpr int kMaxCpus = 8192;

// What lies between two looks at threads that do not sleep yet.
constexpr std::chrono::microseconds kNap{200};

void nap() {
  const timespec time{0, std::chrono::nanoseconds(kNap).count()};
  nanosleep(&time, nullptr);
}

/// Whether the thread sleeps, or is no more.
bool sleeps(int thread) {
  std::ifstream file(concat("/proc/self/task/", thread, "/stat"));
  std::string line;
  std::getline(file, line);
  const auto name_end = line.rfind(") ");
  return name_end == line.npos || line.compare(name_end + 2, 1, "S") == 0;
}

/// Sets the CPUs of threads to those of the calling one.
class OwnMask {
 public:
  OwnMask() { sched_getaffinity(0, bytes_, set_); }
  ~OwnMask() { CPU_FREE(set_); }
  OwnMask(const OwnMask&) = delete;
  OwnMask& operator=(const OwnMask&) = delete;

  /// A thread that has ended stays as it is.
  void set(int thread) const { sched_setaffinity(thread, bytes_, set_); }

  [[nodiscard]] std::vector<int> cpus() const {
    std::vector<int> numbers;
    for (int cpu = 0; cpu < kMaxCpus; ++cpu) {
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes_, set_)) numbers.push_back(cpu);
    }
    return numbers;
  }

 private:
  cpu_set_t* set_ = CPU_ALLOC(kMaxCpus);
  std::size_t bytes_ = CPU_ALLOC_SIZE(kMaxCpus);
};

}  // namespace

Status check_threads_left(int count) {
  std::promise<void> tried;
  const auto wait = [end = tried.get_future().share()] { end.wait(); };
  std::vector<std::thread> made;
  Status status;
  try {
    for (int i = 0; i < count; ++i) made.emplace_back(wait);
  } catch (const std::system_error& error) {
    status = make_error(Code::kResourceExhausted, "no thread could be started: ", error.what(),
                        "; expected ", count, " more for OpenVINO, found ", made.size(),
                        "; raise the limit of threads (ulimit -u) or of memory (ulimit -v), or run "
                        "less at once");
  }
  tried.set_value();
  for (auto& thread : made) thread.join();
  return status;
}

Result<std::shared_ptr<WorkerPool::Claim>> WorkerPool::claim(
    const std::shared_ptr<WorkerPool>& pool) {
  auto cpus = OwnMask().cpus();
  const std::scoped_lock lock(pool->mutex_);
  if (pool->claims_ > 0 && pool->cpus_ != cpus) {
    return make_error(Code::kFailedPrecondition,
                      "OpenVINO's threads are one pool for the process, and another stage has it "
                      "on several other CPUs; give one of the two a single CPU or another backend");
  }
  ++pool->claims_;
  pool->cpus_ = std::move(cpus);
  return std::make_shared<Claim>(pool);
}

WorkerPool::Claim::~Claim() {
  const std::scoped_lock lock(pool_->mutex_);
  --pool_->claims_;
}

Watch::Watch(std::shared_ptr<WorkerPool::Claim> claim)
    : claim_(std::move(claim)), maker_(device::this_thread_id()) {
  for (const auto& [id, name] : find_new()) before_.insert(id);
}

void Watch::confine() {
  const OwnMask mask;
  // OpenVINO's threads set their CPUs themselves when they start work. Once they sleep they have.
  for (;;) {
    const auto workers = find_workers();
    const bool settled = std::ranges::all_of(workers, sleeps);
    for (const int worker : workers) mask.set(worker);
    if (settled || patience_.count() <= 0) return;
    nap();
    patience_ -= kNap;
  }
}

std::vector<int> Watch::find_workers() {
  auto found = find_new();
  if (claim_ != nullptr) {
    auto& pool = claim_->pool();
    const std::scoped_lock lock(pool.mutex_);
    for (const auto& [id, name] : found) pool.workers_[id] = name;
    found = pool.workers_;
    // Another thread may have the id of one that has ended.
    std::erase_if(found, [](const auto& worker) {
      return device::name_of_thread(worker.first) != worker.second;
    });
  }
  std::vector<int> ids;
  ids.reserve(found.size());
  for (const auto& [id, name] : found) ids.push_back(id);
  return ids;
}

std::map<int, std::string> Watch::find_new() const {
  const int own = device::this_thread_id();
  const auto own_name = device::name_of_thread(own);
  std::map<int, std::string> found;
  for (const int id : device::threads_after(maker_)) {
    if (id == own || before_.contains(id)) continue;
    if (device::name_of_thread(id) == own_name) found[id] = own_name;
  }
  return found;
}

}  // namespace penstock::openvino
