#include "workers.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace penstock::openvino {
namespace {

// Machines of more than CPU_SETSIZE processors need a set sized at run time.
constexpr int kMaxCpus = 8192;

// How long a thread that has appeared may take until it sleeps for the first time.
constexpr std::chrono::milliseconds kPatience{200};

std::string name_of(const std::filesystem::path& task) {
  std::ifstream file(task / "comm");
  std::string name;
  std::getline(file, name);
  return name;
}

/// The process's threads by id, with their names.
std::map<int, std::string> threads() {
  std::map<int, std::string> found;
  std::error_code ignored;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
    const long id = std::strtol(task.path().filename().c_str(), nullptr, 10);
    found[static_cast<int>(id)] = name_of(task.path());
  }
  return found;
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
    : claim_(std::move(claim)), before_(threads()) {}

void Watch::confine() {
  const OwnMask mask;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  // OpenVINO's threads set their CPUs themselves when they start work. Once they sleep they have.
  for (;;) {
    const auto workers = find_workers();
    const bool settled = std::ranges::all_of(workers, sleeps);
    for (const int worker : workers) mask.set(worker);
    if (settled || std::chrono::steady_clock::now() > end) return;
    sched_yield();
  }
}

std::vector<int> Watch::find_workers() {
  const auto now = threads();
  const int own = static_cast<int>(syscall(SYS_gettid));
  const auto own_name = now.find(own);
  if (own_name == now.end()) return {};
  std::vector<int> found;
  for (const auto& [id, name] : now) {
    if (id != own && name == own_name->second && !before_.contains(id)) found.push_back(id);
  }
  if (claim_ == nullptr) return found;
  auto& pool = claim_->pool();
  const std::scoped_lock lock(pool.mutex_);
  for (const int id : found) pool.workers_[id] = now.at(id);
  for (const auto& [id, name] : pool.workers_) {
    const auto there = now.find(id);  // Another thread may have the id of one that has ended.
    if (there != now.end() && there->second == name) found.push_back(id);
  }
  return found;
}

}  // namespace penstock::openvino
