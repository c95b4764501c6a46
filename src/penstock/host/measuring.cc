// Checks that a job names only files sent with it, waits for its turn, and runs it in a process.
#include "penstock/host/measuring.h"

#include <algorithm>

#include "penstock/cost/database.h"
#include "penstock/cost/turn.h"
#include "penstock/plan/plan.h"
#include "penstock/serve/upload.h"

namespace penstock::host {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::nanoseconds kSilence = std::chrono::seconds(60);

Status place(fs::path& file, const MeasureOrder& order, const fs::path& folder) {
  const std::string name = file.string();
  const auto is_sent =
      std::ranges::any_of(order.files, [&](const auto& sent) { return sent.first == name; });
  if (!is_sent) {
    return invalid_argument("the job names file '", name.substr(0, 128),
                            "', which is none of those that were sent with it");
  }
  file = folder / name;
  return {};
}

Status place_model(cost::JobModel& model, const MeasureOrder& order, const fs::path& folder,
                   bool native_code) {
  PENSTOCK_CHECK_OK(place(model.file, order, folder));
  if (!native_code) {
    PENSTOCK_CHECK_OK(serve::check_options(model.options));
    if (!model.custom_ops.empty()) {
      return plan::native_code_refused(model.custom_ops.front().string());
    }
  }
  for (auto& library : model.custom_ops) PENSTOCK_CHECK_OK(place(library, order, folder));
  return {};
}

}  // namespace

Result<cost::Job> place_job(const MeasureOrder& order, const fs::path& folder, bool native_code) {
  PENSTOCK_TRY(auto job, cost::parse_job(order.job));
  if (!job.write_outputs.empty()) {
    return invalid_argument("the job wants outputs written; expected an empty 'write_outputs'");
  }
  for (auto& model : job.models) {
    PENSTOCK_CHECK_OK(place_model(model, order, folder, native_code));
  }
  for (auto& [name, files] : job.values) {
    for (auto& file : files) PENSTOCK_CHECK_OK(place(file, order, folder));
  }
  if (!job.reference.empty()) PENSTOCK_CHECK_OK(place(job.reference, order, folder));
  return job;
}

Result<Measured> Measuring::run(const MeasureOrder& order, Contents& contents, bool native_code,
                                const std::function<bool()>& interrupted) {
  PENSTOCK_TRY(const auto folder, contents.lay_out(order.files));
  PENSTOCK_TRY(const auto job, place_job(order, *folder, native_code));
  const std::scoped_lock lock(mutex_);
  const auto turn = cost::Turn::wait(cost::Database::default_path(), interrupted);
  if (!turn.taken()) return make_error(Code::kCancelled, "nobody waits for the job any more");
  return run_placed(job, order, interrupted);
}

Result<Measured> Measuring::run_placed(const cost::Job& job, const MeasureOrder& order,
                                       const std::function<bool()>& interrupted) {
  const auto silence = order.silence.count() > 0 ? order.silence : kSilence;
  if (process_ == nullptr || memory_bytes_ != order.memory_bytes || silence_ != silence) {
    process_ = nullptr;  // Before the next one takes memory.
    PENSTOCK_TRY(process_, cost::Worker::start({order.memory_bytes, silence}));
    memory_bytes_ = order.memory_bytes;
    silence_ = silence;
  }
  auto outcome = process_->run(job, interrupted);
  if (!outcome || outcome->kind != cost::WorkerOutcome::Kind::kReport) process_ = nullptr;
  PENSTOCK_CHECK_OK(outcome);
  if (outcome->kind == cost::WorkerOutcome::Kind::kInterrupted) {
    return make_error(Code::kCancelled, "nobody waits for the job any more");
  }
  if (outcome->kind == cost::WorkerOutcome::Kind::kDied) {
    return Measured{{}, std::string(to_string(outcome->failure.kind)), outcome->failure.message};
  }
  return Measured{to_line(outcome->report), {}, {}};
}

void Measuring::rest() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) process_ = nullptr;
}

}  // namespace penstock::host
