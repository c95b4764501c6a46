// Opens sessions, stages and calls within limits; a thread ends sessions whose lease is over.
#include "penstock/host/host.h"

#include <algorithm>

#include "penstock/base/secret.h"
#include "penstock/base/thread.h"
#include "penstock/pipeline/guarded.h"
#include "penstock/plan/plan.h"
#include "penstock/serve/running_model.h"

namespace penstock::host {
namespace {

constexpr auto kLook = std::chrono::milliseconds(100);  // Between looks at leases.

}  // namespace

Host::Host(serve::Server& server, Options options, std::shared_ptr<Contents> contents,
           std::string instance)
    : server_(server),
      options_(std::move(options)),
      contents_(std::move(contents)),
      instance_(std::move(instance)),
      tickets_(options_.limits.ticket_bytes),
      sessions_(options_.limits.sessions) {}

Result<std::unique_ptr<Host>> Host::start(serve::Server& server, Options options) {
  PENSTOCK_TRY(auto contents, Contents::open(options.cache, options.limits.content_bytes));
  PENSTOCK_TRY(auto instance, make_secret());
  std::unique_ptr<Host> host(
      new Host(server, std::move(options), std::move(contents), std::move(instance)));
  PENSTOCK_CHECK_OK(start_thread(host->keeper_, [made = host.get()] { made->keep(); }));
  return host;
}

Host::~Host() {
  stop();
}

Result<MachineFacts> Host::describe() const {
  return read_machine(server_.shared().backends);
}

std::string Host::engine_version(const std::string& backend) const {
  const auto found = server_.shared().backends.find(backend);
  return found ? (*found)->describe().engine_version : std::string();
}

// --------------------------------------------------------------------------------------- sessions

Result<std::shared_ptr<Session>> Host::open(const std::string& client, const std::string& caller,
                                            std::chrono::nanoseconds lease) {
  if (draining()) return make_error(Code::kUnavailable, "the worker is shutting down");
  const auto given =
      lease.count() > 0 ? std::min(lease, options_.limits.most_lease) : options_.limits.lease;
  PENSTOCK_TRY(const auto session, sessions_.open(client, caller, given, Clock::now()));
  if (options_.say)
    options_.say(concat("session ", session->number(), " of '", caller, "': opened"));
  return session;
}

Result<std::shared_ptr<Session>> Host::take_up(const std::string& id, const std::string& client,
                                               const std::set<std::string>& tickets) {
  PENSTOCK_TRY(const auto session, find(id, client));
  session->take_up();  // Before: so that whatever is kept beside this is freed by who keeps it.
  tickets_.release_all(session->number(), tickets);
  return session;
}

void Host::close(const Session& session) {
  if (const auto closed = sessions_.close(session)) end({closed}, "closed");
}

/// Frees what they have; stages are the keeper's to close, as their calls may take a while to end.
void Host::end(const std::vector<std::shared_ptr<Session>>& sessions, const char* why) {
  for (const auto& session : sessions) {
    auto stages = session->end();
    tickets_.release_all(session->number());
    if (options_.say) {
      options_.say(concat("session ", session->number(), " of '", session->caller(), "': ", why));
    }
    const std::scoped_lock lock(mutex_);
    std::ranges::move(stages, std::back_inserter(to_close_));
    changed_.notify_all();
  }
}

void Host::keep() {
  std::unique_lock lock(mutex_);
  for (;;) {
    auto closing = std::exchange(to_close_, {});
    const bool ends = ends_;
    lock.unlock();
    for (auto& stage : closing) {
      stage->close(kPatienceWithCalls);
      stage = nullptr;
    }
    end(sessions_.expire(Clock::now()), "was not heard of within its lease");
    if (sessions_.count() == 0) measuring_.rest();
    lock.lock();
    stages_ -= closing.size();
    if (!to_close_.empty()) continue;
    if (ends) return;
    changed_.wait_for(lock, kLook, [&] { return ends_ || !to_close_.empty(); });
  }
}

// --------------------------------------------------------------------------------------- contents

std::vector<std::string> Host::missing(Session& session, const std::vector<std::string>& sha256) {
  std::vector<std::string> absent;
  for (const auto& hash : sha256) {
    if (auto content = contents_->find(hash)) {
      session.hold(std::move(content));
    } else {
      absent.push_back(hash);
    }
  }
  return absent;
}

Result<Host::Files> Host::find_files(const std::vector<FileOrder>& files) {
  Files found;
  for (const auto& file : files) {
    PENSTOCK_CHECK_OK(check_sha256(file.sha256));
    auto content = contents_->find(file.sha256);
    if (content == nullptr) {
      return not_found("content ", file.sha256, " of '", file.path.substr(0, 128),
                       "' is not here; put it");
    }
    found.emplace_back(file.path, std::move(content));
  }
  return found;
}

// ----------------------------------------------------------------------------------------- stages

/// A place among those that there may be, before anything is compiled.
Status Host::count_stage() {
  const std::scoped_lock lock(mutex_);
  if (draining_) return make_error(Code::kUnavailable, "the worker is shutting down");
  if (stages_ >= options_.limits.stages) {
    return make_error(Code::kResourceExhausted, "this worker takes ", options_.limits.stages,
                      " stages, and so many are open; close one");
  }
  ++stages_;
  return {};
}

Result<std::uint64_t> Host::open_stage(Session& session, StageOrder order,
                                       const std::vector<FileOrder>& files,
                                       const std::vector<FileOrder>& custom_ops) {
  if (files.empty()) return invalid_argument("expected a model, found no file");
  if (!custom_ops.empty() && !options_.native_code) {
    return plan::native_code_refused(custom_ops.front().path);
  }
  auto all = files;
  std::ranges::copy(custom_ops, std::back_inserter(all));
  PENSTOCK_TRY(const auto found, find_files(all));
  PENSTOCK_TRY(order.folder, contents_->lay_out(found));
  order.model = files.front().path;
  for (const auto& library : custom_ops) order.custom_ops.push_back(library.path);
  PENSTOCK_CHECK_OK(count_stage());
  using pipeline::guarded;
  auto stage = guarded([&] { return Stage::open(order, server_.shared(), options_.native_code); });
  auto number = stage ? guarded([&] { return session.add(*stage); })
                      : Result<std::uint64_t>(std::move(stage).error());
  if (number) return number;
  stage = std::move(number).error();  // Closed here, before it is counted out.
  const std::scoped_lock lock(mutex_);
  --stages_;
  return std::move(stage).error();
}

void Host::close_stage(Session& session, std::uint64_t number) {
  auto stage = session.take(number);
  if (stage == nullptr) return;
  stage->close(kPatienceWithCalls);
  stage = nullptr;
  const std::scoped_lock lock(mutex_);
  --stages_;
}

// ------------------------------------------------------------------------------------------ calls

std::shared_ptr<Call> Host::call(const std::shared_ptr<Session>& session, Puller& puller,
                                 CallRequest request, CallDone done) {
  {
    const std::scoped_lock lock(mutex_);
    ++calls_;
  }
  const CallPlaces places{tickets_, puller, server_.shared().budget};
  return start_call(session, places, std::move(request),
                    [this, done = std::move(done)](CallReply reply) {
                      done(std::move(reply));
                      const std::scoped_lock lock(mutex_);
                      if (--calls_ == 0) changed_.notify_all();
                    });
}

Result<Measured> Host::measure(MeasureOrder order, const std::vector<FileOrder>& files,
                               const std::function<bool()>& interrupted) {
  PENSTOCK_TRY(order.files, find_files(files));
  return measuring_.run(order, *contents_, options_.native_code, interrupted);
}

// -------------------------------------------------------------------------------------------- end

Host::Load Host::load() const {
  Load load{.sessions = sessions_.count(),
            .kept_bytes = tickets_.bytes(),
            .stored_bytes = contents_->bytes()};
  const std::scoped_lock lock(mutex_);
  load.stages = stages_;
  load.calls = calls_;
  return load;
}

bool Host::draining() const {
  const std::scoped_lock lock(mutex_);
  return draining_;
}

bool Host::drain(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  return changed_.wait_for(lock, timeout, [&] { return calls_ == 0; });
}

void Host::stop() {
  {
    const std::scoped_lock lock(mutex_);
    draining_ = true;
  }
  end(sessions_.close_all(), "ends with the worker");
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return calls_ == 0; });
    ends_ = true;
    changed_.notify_all();
  }
  if (keeper_.joinable()) keeper_.join();
}

}  // namespace penstock::host
