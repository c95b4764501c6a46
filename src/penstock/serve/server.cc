// Finds each call's model in the repository; writes traces; waits for requests when it drains.
#include "penstock/serve/server.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "penstock/pipeline/guarded.h"
#include "penstock/serve/repository.h"
#include "penstock/serve/server_options.h"

namespace penstock::serve {

Result<std::unique_ptr<Server>> Server::start(const Options& options,
                                              const backend::Registry& backends) {
  auto repository = std::make_unique<Repository>(options, backends);
  PENSTOCK_CHECK_OK(repository->load_all());
  return std::unique_ptr<Server>(new Server(std::move(repository)));
}

Server::Server(std::unique_ptr<Repository> repository) : repository_(std::move(repository)) {}
Server::~Server() = default;

// NOLINTNEXTLINE(readability-convert-member-functions-to-static)
bool Server::live() const {
  return true;
}

bool Server::ready() const {
  return repository_->all_ready();
}

Result<bool> Server::model_ready(const std::string& model, const std::string& version) const {
  return repository_->is_ready(model, version);
}

Result<ModelDescription> Server::describe(const std::string& model,
                                          const std::string& version) const {
  PENSTOCK_TRY(const auto found, repository_->find(model, version));
  auto description = found->describe();
  description.versions = repository_->ready_versions(model);
  return description;
}

Result<std::vector<ModelStatistics>> Server::statistics(const std::string& model,
                                                        const std::string& version) const {
  std::vector<ModelStatistics> all;
  if (!model.empty() && !version.empty()) {
    PENSTOCK_TRY(const auto found, repository_->find(model, version));
    all.push_back(found->statistics());
    return all;
  }
  for (const auto& found : repository_->ready_ones(model)) all.push_back(found->statistics());
  if (!model.empty() && all.empty()) {
    PENSTOCK_CHECK_OK(repository_->find(model, version));
  }
  return all;
}

std::shared_ptr<Call> Server::infer(Request request, std::function<void(Result<Reply>)> done) {
  auto found = pipeline::guarded([&]() -> Result<Pinned<RunningModel>> {
    PENSTOCK_TRY(auto model, repository_->find(request.model, request.version));
    request.version = model->version();
    return model;
  });
  if (!found) {
    done(std::move(found).error());
    return nullptr;
  }
  return RunningModel::infer(*std::move(found), std::move(request), std::move(done));
}

std::vector<IndexEntry> Server::index(bool only_ready) const {
  auto entries = repository_->index();
  if (only_ready) std::erase_if(entries, [](const auto& entry) { return entry.state != "READY"; });
  return entries;
}

Status Server::load(const std::string& model, const LoadOptions& options) {
  return repository_->load(model, options);
}

Status Server::unload(const std::string& model) {
  return repository_->unload(model);
}

Reloaded Server::reload() {
  return repository_->reload();
}

Result<std::uint64_t> Server::write_trace(const std::filesystem::path& file) const {
  const auto& requests = repository_->shared().requests;
  if (requests == nullptr) {
    return make_error(Code::kFailedPrecondition, "trace: the server was started without tracing");
  }
  PENSTOCK_TRY(auto trace, pipeline::TraceFile::create(file));
  std::uint64_t lost = requests->write(trace);
  for (const auto& model : repository_->ready_ones("")) {
    PENSTOCK_TRY(const std::uint64_t of_model, model->add_trace(trace));
    lost += of_model;
  }
  PENSTOCK_CHECK_OK(trace.close());
  return lost;
}

SharedMemory& Server::shared_memory() {
  return repository_->shared().regions;
}

Shared& Server::shared() {
  return repository_->shared();
}

const Limits& Server::limits() const {
  return repository_->shared().limits;
}

namespace {

constexpr auto kPoll = std::chrono::milliseconds(2);
/// As long as no request came, all clients have heard that the server leaves,
constexpr auto kQuiet = std::chrono::milliseconds(100);
/// or do not listen.
constexpr auto kLongestNoise = std::chrono::seconds(1);

}  // namespace

bool Server::drain(std::chrono::nanoseconds timeout) {
  using Clock = std::chrono::steady_clock;
  repository_->drain();
  const auto end = Clock::now() + timeout;
  while (repository_->pending() > 0) {
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(kPoll);
  }
  const auto last = std::min(end, Clock::now() + kLongestNoise);
  while (Clock::now() < std::min(last, repository_->last_refusal() + kQuiet)) {
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

}  // namespace penstock::serve
