// Takes a request through checks, sequence, queue, pipeline and reply; replaces the running plan.
#include "penstock/serve/running_model.h"

#include <algorithm>
#include <climits>
#include <utility>

#include "penstock/base/words.h"
#include "penstock/pipeline/guarded.h"

namespace penstock::serve {
namespace {

using pipeline::guarded;
using Clock = std::chrono::steady_clock;

std::uint64_t bytes_of(const Tensor& tensor) {
  if (tensor.kind() != Tensor::Kind::kStrings) return tensor.bytes();
  std::uint64_t bytes = 0;
  for (const auto& text : tensor.strings()) bytes += sizeof(text) + text.size();
  return bytes;
}

std::uint64_t bytes_of_inputs(const std::vector<Tensor>& inputs) {
  std::uint64_t bytes = 0;
  for (const auto& input : inputs) bytes += bytes_of(input);
  return bytes;
}

std::vector<TensorDescription> describe_all(const std::vector<plan::TensorInfo>& infos) {
  std::vector<TensorDescription> described;
  for (const auto& info : infos) {
    TensorDescription tensor{info.name, info.type.dtype, {}};
    for (const auto& dim : info.type.dims) tensor.dims.push_back(dim.fixed() ? dim.size : -1);
    if (!info.type.ranked) tensor.dims = {-1};
    described.push_back(std::move(tensor));
  }
  return described;
}

/// As RunningModel::settled_.
std::vector<std::string> settled_in(const plan::Plan& plan) {
  const auto content_of = [&](const std::string& file) {
    const auto hash = plan.files.find(file);
    return hash == plan.files.end() ? file : hash->second;
  };
  std::vector<std::string> settled;
  for (const auto& input : plan.bound_inputs) {
    settled.push_back(concat(input.name, "=", input.value, content_of(input.file)));
  }
  for (const auto& state : plan.states) {
    settled.push_back(concat(state.from, " to ", state.to, "=", content_of(state.initial)));
  }
  return settled;
}

/// That a pipeline's workers compute at a time, in full calls of all lanes.
std::size_t frames_at_a_time(const pipeline::Stats& stats) {
  std::size_t frames = 0;
  for (const auto& stage : stats.stages) {
    frames += static_cast<std::size_t>(stage.replicas * stage.lanes) * stage.calls.size();
  }
  return frames;
}

BatchStatistics batch_of(std::size_t frames, const pipeline::CallStats& stats) {
  const auto all = [&](double ns) {
    return Duration{.count = stats.calls, .ns = static_cast<std::uint64_t>(ns)};
  };
  return {.batch_size = frames,
          .compute_input = all(stats.input_ns),
          .compute_infer = all(stats.infer_ns),
          .compute_output = all(stats.output_ns)};
}

/// An output until its last owner lets go of it, such as a connection that has sent it.
struct ChargedOutput {
  std::shared_ptr<const ReplyCharge> charge;
  Tensor value;
};

/// Dense outputs keep the charge by themselves; who writes others as bytes keeps it with those.
Status charge(Reply& reply, const std::shared_ptr<ReplyBudget>& budget,
              const std::string& connection) {
  std::uint64_t bytes = 0;
  for (const auto& output : reply.outputs) {
    if (!output.place) bytes += bytes_of(output.value);
  }
  reply.charge = std::make_shared<ReplyCharge>(budget, connection);
  PENSTOCK_CHECK_OK(reply.charge->become(bytes));
  for (auto& output : reply.outputs) {
    if (output.place || output.value.kind() != Tensor::Kind::kDense) continue;
    auto charged =
        std::make_shared<ChargedOutput>(ChargedOutput{reply.charge, std::move(output.value)});
    Tensor& held = charged->value;
    output.value = Tensor::view(held.dtype(), held.dims(), held.data(), charged);
  }
  return {};
}

}  // namespace

/// A request on its way: it waits, is a frame, and ends once.
class RunningModel::Running final : public Call,
                                    public Entrant,
                                    public std::enable_shared_from_this<Running> {
 public:
  Running(Pinned<RunningModel> model, Request request, Done done)
      : model_(&*model),
        request_(std::move(request)),
        done_(std::move(done)),
        pin_(std::move(model)) {}

  /// \error  it cannot begin, and has to be ended.
  Status begin() {
    PENSTOCK_CHECK_OK(check_outputs(request_, model_->interface_));
    PENSTOCK_TRY(inputs_, read_inputs(request_, model_->interface_, model_->shared_.regions));
    request_.inputs.clear();
    ByteBudget& budget = model_->shared_.budget;
    const std::uint64_t bytes = bytes_of_inputs(inputs_);
    if (!budget.take(bytes)) {
      return make_error(Code::kResourceExhausted,
                        "the inputs of all requests in progress may take ", budget.most(),
                        " bytes; try again later");
    }
    bytes_ = bytes;
    PENSTOCK_TRY(lane_, model_->sequences_->enter(request_.sequence));
    read_ = Clock::now();
    model_->admission_->add(shared_from_this());
    return {};
  }

  [[nodiscard]] pipeline::Priority priority() const override { return request_.priority; }
  [[nodiscard]] std::optional<Clock::time_point> deadline() const override {
    return request_.deadline;
  }

  Status push(std::chrono::nanoseconds timeout) override {
    return guarded([&] { return push_frame(timeout); });
  }

  void refuse(Error error) override { finish(std::move(error)); }

  void cancel() override {
    const auto pin = pin_again([&] { cancelled_ = true; });
    if (!pin) return;
    if (const auto frame = frame_number()) {
      model_->pipeline_->cancel(*frame);
    } else if (model_->admission_->remove(*this)) {
      finish(cancelled());
    }
  }

  /// Ends it, unless it has ended. Whoever waits is told, whatever memory is refused meanwhile.
  void finish(Result<Reply> reply) noexcept {
    Done done;
    std::optional<Pinned<RunningModel>> pin;
    {
      const std::scoped_lock lock(mutex_);
      if (!done_) return;
      done = std::exchange(done_, nullptr);
      pin.emplace(*std::move(pin_));
      pin_.reset();
    }
    note_end(reply);
    // Who throws here has the request, and lets go of it: its connection says so or ends.
    static_cast<void>(guarded([&]() -> Status {
      done(std::move(reply));
      return {};
    }));
  }

 private:
  Status push_frame(std::chrono::nanoseconds timeout) {
    if (is_cancelled()) return cancelled();
    const bool entered = model_->pace_.enter(timeout);
    if (!entered && !model_->pipeline_->closed_by()) return no_room();
    Status pushed =
        guarded([&] { return push_entered(entered ? timeout : std::chrono::nanoseconds(0)); });
    if (!pushed && entered) model_->pace_.leave(Clock::now(), false);
    return pushed;
  }

  Status push_entered(std::chrono::nanoseconds timeout) {
    pipeline::FrameOptions options;
    options.deadline = request_.deadline;
    options.traceparent = request_.traceparent;
    options.stream = lane_->stream;
    options.priority = request_.priority;
    options.in_order = false;
    options.brief = true;
    options.done = [running = shared_from_this()](pipeline::Output output) {
      running->end(std::move(output));
    };
    pushed_ = Clock::now();
    const auto frame = model_->pipeline_->push(inputs_, timeout, options);
    if (!frame) return frame.error();
    // It is a frame now, and ends as one.
    static_cast<void>(guarded([&]() -> Status {
      note_frame(*frame);
      return {};
    }));
    return {};
  }

  /// What becomes of it, in the trace, its sequence, the budget and the figures.
  void note_end(Result<Reply>& reply) {
    const auto now = Clock::now();
    static_cast<void>(guarded([&]() -> Status {
      trace(reply, now);
      return {};
    }));
    if (lane_ != nullptr) {
      const bool last = request_.sequence && request_.sequence->end;
      model_->leave(lane_, last, left_as(reply));
    }
    model_->shared_.budget.give_back(bytes_);
    if (reply) {
      model_->recorder_.succeed(times(now), copies_ + request_.copies);
    } else {
      model_->recorder_.fail(reply.error(), failed_as_frame_, now - request_.received);
      if (!request_.id.empty()) reply = with_id(std::move(reply).error());
    }
  }

  [[nodiscard]] Error with_id(Error error) const {
    auto told = guarded([&]() -> Status {
      return std::move(error).within(concat("[request id: ", request_.id, "]"));
    });
    return std::move(told).error();
  }

  static Error no_room() {
    auto told = guarded(
        []() -> Status { return make_error(Code::kDeadlineExceeded, "the pipeline has no room"); });
    return std::move(told).error();
  }

  static Error cancelled() {
    auto told = guarded([]() -> Status {
      return make_error(Code::kCancelled, "the client cancelled the request");
    });
    return std::move(told).error();
  }

  [[nodiscard]] bool is_cancelled() {
    const std::scoped_lock lock(mutex_);
    return cancelled_;
  }

  [[nodiscard]] std::optional<pipeline::FrameNumber> frame_number() {
    const std::scoped_lock lock(mutex_);
    return frame_;
  }

  [[nodiscard]] Sequences::Left left_as(const Result<Reply>& reply) const {
    if (out_ != Clock::time_point()) return Sequences::Left::kFrame;
    const bool given_up = !reply && (reply.error().code == Code::kDeadlineExceeded ||
                                     reply.error().code == Code::kCancelled);
    return given_up ? Sequences::Left::kGivenUp : Sequences::Left::kRefused;
  }

  void trace(const Result<Reply>& reply, Clock::time_point now) {
    const auto& requests = model_->shared_.requests;
    if (requests == nullptr) return;
    const auto reached = [](Clock::time_point time) {
      return time == Clock::time_point() ? std::nullopt : std::optional(time);
    };
    requests->add({.model = model_->name_,
                   .version = model_->version_,
                   .id = request_.id,
                   .traceparent = request_.traceparent,
                   .error = reply ? std::string() : std::string(to_string(reply.error().code)),
                   .frame = frame_number(),
                   .received = request_.received,
                   .read = reached(read_),
                   .pushed = reached(pushed_),
                   .out = reached(out_),
                   .end = now});
  }

  /// Keeps the model for a while; nothing where the request has ended, and its pin is gone.
  template <typename Change>
  std::optional<Pinned<RunningModel>> pin_again(Change change) {
    const std::scoped_lock lock(mutex_);
    std::optional<Pinned<RunningModel>> pin;
    if (!done_) return pin;
    change();
    pin.emplace(model_->pin());
    return pin;
  }

  void note_frame(pipeline::FrameNumber frame) {
    const auto pin = pin_again([&] { frame_ = frame; });
    if (pin && is_cancelled()) model_->pipeline_->cancel(frame);
  }

  void end(pipeline::Output output) {
    out_ = Clock::now();
    {
      const std::scoped_lock lock(mutex_);
      frame_ = output.number();  // It may be out before push() has returned.
    }
    inputs_.clear();
    model_->pace_.leave(out_, output.ok());
    finish(guarded([&] { return reply_of(output); }));
  }

  Result<Reply> reply_of(pipeline::Output& output) {
    failed_as_frame_ = !output.ok();
    if (failed_as_frame_) return with_the_clients_times(output.error());
    PENSTOCK_TRY(auto reply, make_reply(request_, model_->interface_, model_->shared_.regions,
                                        output, copies_));
    PENSTOCK_CHECK_OK(charge(reply, model_->shared_.replies, request_.connection));
    return reply;
  }

  /// A client's patience begins with the request, of which the pipeline knows only what was left.
  [[nodiscard]] Error with_the_clients_times(Error error) const {
    const bool in_vain = request_.deadline && out_ >= *request_.deadline;
    if (error.code != Code::kDeadlineExceeded || !in_vain) return error;
    const auto since = [this](Clock::time_point time) {
      return time_text(std::chrono::duration<double, std::nano>(time - request_.received).count());
    };
    error.reason =
        *request_.deadline <= request_.received
            ? "deadline_exceeded: its deadline had passed before the request came"
            : concat("deadline_exceeded: ", since(out_), " since the request came, at most ",
                     since(*request_.deadline), " allowed");
    return error;
  }

  [[nodiscard]] Times times(Clock::time_point now) const {
    return {read_ - request_.received, pushed_ - read_, out_ - pushed_, now - out_,
            now - request_.received};
  }

  RunningModel* const model_;  // While `pin_` is.
  Request request_;
  std::vector<Tensor> inputs_;
  std::shared_ptr<Sequences::Lane> lane_;
  std::uint64_t bytes_ = 0, copies_ = 0;
  bool failed_as_frame_ = false;
  Clock::time_point read_, pushed_, out_;

  std::mutex mutex_;  // Guards all below.
  Done done_;         // Empty: it has ended.
  std::optional<Pinned<RunningModel>> pin_;
  bool cancelled_ = false;
  std::optional<pipeline::FrameNumber> frame_;
};

Result<std::unique_ptr<RunningModel>> RunningModel::start(std::string name, std::string version,
                                                          plan::Package package, bool native_code,
                                                          Shared& shared) {
  std::unique_ptr<RunningModel> model(
      new RunningModel(std::move(name), std::move(version), shared));
  PENSTOCK_CHECK_OK(model->open(std::move(package), native_code));
  return model;
}

/// As many streams as requests may be in progress, so that they come out as they are done. A frame
/// that fails is its request's answer, and ends nothing.
void RunningModel::prepare(plan::Package& package) const {
  auto& streams = package.plan.streams;
  const std::size_t wanted = has_states_ ? shared_.limits.sequences + Sequences::kMostEnding + 1
                                         : shared_.limits.waiting + std::size_t{4096};
  streams.most = std::max(streams.most, static_cast<int>(std::min<std::size_t>(wanted, INT_MAX)));
  streams.evict = false;
  package.plan.on_error = plan::OnError::kDeliver;
}

Status RunningModel::open(plan::Package package, bool native_code) {
  const auto begin = Clock::now();
  has_states_ = !package.plan.states.empty();
  settled_ = settled_in(package.plan);
  interface_.inputs = package.plan.inputs;
  interface_.outputs = package.plan.outputs;
  PENSTOCK_TRY(interface_.bound, plan::read_bound_values(package.plan, package.folder));
  PENSTOCK_CHECK_OK(check_interface(interface_));
  prepare(package);
  auto options = shared_.start;
  options.native_code = native_code;
  PENSTOCK_TRY(pipeline_,
               pipeline::Pipeline::start(package.plan, package.folder, shared_.backends, options));
  set_pace();
  files_.push_back(package.files);
  const auto end_stream = [this](std::uint64_t stream) -> bool {
    return static_cast<bool>(guarded([&] { return pipeline_->end_stream(stream); }));
  };
  sequences_ = std::make_unique<Sequences>(Sequences::Options{
      has_states_, shared_.limits.sequences, shared_.limits.sequence_idle, end_stream});
  PENSTOCK_TRY(admission_, Admission::start(shared_.limits.waiting,
                                            [this] { return sequences_->end_streams(); }));
  load_seconds_ = std::chrono::duration<double>(Clock::now() - begin).count();
  return {};
}

/// Each worker has a frame, or a full call, and another one is ready.
void RunningModel::set_pace() {
  constexpr std::size_t kLeast = 4;
  pace_.let_in_at_least(std::max(kLeast, 2 * frames_at_a_time(pipeline_->stats())));
}

RunningModel::~RunningModel() {
  admission_.reset();
  pipeline_.reset();
}

void RunningModel::end(std::chrono::nanoseconds patience) {
  pipeline_->cancel();
  if (!pipeline_->end(patience)) pipeline_->leave_behind();
  pins_->wait_for_none();
}

Status RunningModel::replace(plan::Package package, bool native_code,
                             const pipeline::Pipeline::MayGo& may_go) {
  const std::scoped_lock lock(replacing_);
  const auto begin = Clock::now();
  prepare(package);
  auto options = shared_.start;
  options.native_code = native_code;
  Clock::duration others{};  // What `may_go` loads is not this version's.
  const auto timed = [&] {
    const auto before = Clock::now();
    Status may = may_go();
    others = Clock::now() - before;
    return may;
  };
  PENSTOCK_CHECK_OK(
      pipeline_->replace(package.plan, package.folder, shared_.backends, options, timed));
  set_pace();
  if (files_.size() > 1) files_.erase(files_.begin());
  files_.push_back(package.files);
  load_seconds_ = std::chrono::duration<double>(Clock::now() - begin - others).count();
  return {};
}

bool RunningModel::has_interface_of(const plan::Plan& plan) const {
  return plan.inputs == interface_.inputs && plan.outputs == interface_.outputs &&
         settled_in(plan) == settled_;
}

void RunningModel::leave(const std::shared_ptr<Sequences::Lane>& lane, bool last,
                         Sequences::Left left) {
  sequences_->leave(lane, last, left);
  if (has_states_ && !sequences_->end_streams()) admission_->wake();
}

std::shared_ptr<Call> RunningModel::infer(Pinned<RunningModel> model, Request request, Done done) {
  std::shared_ptr<Running> running;
  Status begun = guarded([&] {
    running = std::make_shared<Running>(std::move(model), std::move(request), std::move(done));
    return running->begin();
  });
  if (begun) return running;
  if (running == nullptr) {
    done(std::move(begun).error());
  } else {
    running->finish(std::move(begun).error());
  }
  return running;
}

ModelDescription RunningModel::describe() const {
  return {.name = name_,
          .version = version_,
          .versions = {},
          .inputs = describe_all(interface_.inputs),
          .outputs = describe_all(interface_.outputs),
          .has_states = has_states_,
          .in_flight = pipeline_->in_flight_limit()};
}

ModelStatistics RunningModel::statistics() const {
  ModelStatistics statistics;
  statistics.name = name_;
  statistics.version = version_;
  recorder_.read(statistics);
  statistics.pending = pins_->count() - 1;  // Who asks holds one.
  statistics.waiting = admission_->waiting();
  statistics.pipeline = pipeline_->stats();
  const auto& all = statistics.pipeline.first_calls;
  for (std::size_t i = 0; i < all.size(); ++i) {
    statistics.executions += all[i].calls;
    if (all[i].calls > 0) statistics.batches.push_back(batch_of(i + 1, all[i]));
  }
  statistics.memory_bytes = statistics.pipeline.memory_bytes.value_or(0);
  statistics.load_seconds = load_seconds_;
  return statistics;
}

}  // namespace penstock::serve
