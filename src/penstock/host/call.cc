// Pulls a call's inputs side by side, runs the stage, and sends its outputs or keeps tensors here.
#include "penstock/host/call.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "penstock/base/words.h"
#include "penstock/tensor/datatype.h"

namespace penstock::host {
namespace {

/// Gathers, then runs, then ends once.
class RunningCall final : public Call, public std::enable_shared_from_this<RunningCall> {
 public:
  RunningCall(std::shared_ptr<Session> session, const CallPlaces& places, CallRequest request,
              CallDone done)
      : session_(std::move(session)),
        places_(places),
        request_(std::move(request)),
        done_(std::move(done)) {
    times_.received = request_.received;
  }

  void begin() {
    auto stage = session_->stage(request_.stage);
    if (!stage) return finish(std::move(stage).error());
    facts_ = (*stage)->facts();
    if (Status fits = check_counts(); !fits) return finish(std::move(fits).error());
    // One more than are pulled: so that none but the last line below goes on before all have begun.
    pending_ = 1;
    for (std::size_t i = 0; i < request_.inputs.size(); ++i) {
      if (!request_.inputs[i].ticket) continue;
      if (Status begun = begin_pull(i); !begun) {
        note(i, std::move(begun).error());
        break;
      }
    }
    end_pull(std::nullopt);
  }

  void cancel() override {
    std::vector<std::shared_ptr<serve::Call>> calls;
    {
      const std::scoped_lock lock(mutex_);
      if (!error_) error_ = make_error(Code::kCancelled, "the caller cancelled the call");
      calls = calls_;
    }
    for (const auto& call : calls) call->cancel();
  }

  void lose(const std::string& address) override {
    std::optional<std::size_t> input;
    {
      const std::scoped_lock lock(mutex_);
      for (const std::size_t i : pulling_) {
        if (request_.inputs[i].ticket->address == address) input = i;
      }
    }
    if (!input) return;
    note(*input, make_error(Code::kUnavailable, "the worker that had it is lost")
                     .within({Where::kPeer, address}));
  }

 private:
  Status check_counts() const {
    const std::size_t inputs = facts_->inputs.size(), outputs = facts_->outputs.size();
    if (request_.inputs.size() != inputs) {
      return invalid_argument("expected ", counted(inputs, "input"), ", found ",
                              request_.inputs.size());
    }
    if (request_.outputs.size() <= outputs) return {};
    return invalid_argument("expected at most ", counted(outputs, "output"), ", found ",
                            request_.outputs.size());
  }

  Status begin_pull(std::size_t i) {
    auto& input = request_.inputs[i];
    const Ticket& ticket = *input.ticket;
    if (ticket.address.empty()) {
      PENSTOCK_TRY(auto pull, places_.tickets.pull(ticket.id));
      input.value = pull.tensor();
      pull.finish();
      return {};
    }
    if (!session_->has_peer(ticket.address)) {
      return make_error(Code::kPermissionDenied, "'", ticket.address.substr(0, 128),
                        "' is none of the peers that the session was opened with");
    }
    PENSTOCK_TRY(const std::uint64_t bytes, count_bytes(input.dtype, input.dims));
    if (!places_.budget.take(bytes)) {
      return make_error(Code::kResourceExhausted, "the inputs of all calls in progress may take ",
                        places_.budget.most(), " bytes; try again later");
    }
    budgeted_ += bytes;
    {
      const std::scoped_lock lock(mutex_);
      ++pending_;
      pulling_.insert(i);
    }
    keep(places_.puller.pull(ticket, input.dtype, input.dims, request_.deadline,
                             [call = shared_from_this(), i](Result<Tensor> tensor) {
                               if (tensor) {
                                 call->request_.inputs[i].value = *std::move(tensor);
                               } else {
                                 call->note(i, std::move(tensor).error());
                               }
                               call->end_pull(i);
                             }));
    return {};
  }

  /// The first error holds; nobody wants the other pulls any more.
  void note(std::size_t i, Error error) {
    std::vector<std::shared_ptr<serve::Call>> calls;
    {
      const std::scoped_lock lock(mutex_);
      if (error_) return;
      error_ = std::move(error).within({Where::kInput, facts_->inputs[i].name});
      calls = calls_;
    }
    for (const auto& call : calls) call->cancel();
  }

  void keep(const std::shared_ptr<serve::Call>& call) {
    if (call == nullptr) return;
    {
      const std::scoped_lock lock(mutex_);
      calls_.push_back(call);
      if (!error_) return;
    }
    call->cancel();
  }

  void end_pull(std::optional<std::size_t> input) {
    std::optional<Error> error;
    {
      const std::scoped_lock lock(mutex_);
      if (input) pulling_.erase(*input);
      if (--pending_ > 0) return;
      error = error_;
      calls_.clear();
    }
    const bool pulled = std::ranges::any_of(
        request_.inputs, [](const auto& given) { return given.ticket.has_value(); });
    if (pulled) times_.pulled = Clock::now();
    error ? finish(*std::move(error)) : run();
  }

  /// Holds the stage for no longer than this: who holds the last of it waits for its calls.
  void run() {
    const auto stage = session_->stage(request_.stage);
    if (!stage) return finish(stage.error());
    serve::Request request;
    request.model = facts_->name;
    request.deadline = request_.deadline;
    request.traceparent = request_.traceparent;
    request.received = request_.received;
    for (std::size_t i = 0; i < request_.inputs.size(); ++i) {
      Tensor value = std::exchange(request_.inputs[i].value, {});
      request.inputs.push_back(
          {facts_->inputs[i].name, value.dtype(), value.dims(), std::move(value), std::nullopt});
    }
    give_back();  // The stage counts them from now on.
    times_.begun = Clock::now();
    keep((*stage)->infer(std::move(request),
                         [call = shared_from_this()](Result<serve::Reply> reply) {
                           call->times_.ended = Clock::now();
                           reply ? call->finish(call->place_outputs(*std::move(reply)))
                                 : call->finish(std::move(reply).error());
                         }));
  }

  Result<std::vector<CallValue>> place_outputs(serve::Reply reply) {
    std::vector<CallValue> values;
    std::vector<std::string> kept;
    for (std::size_t i = 0; i < reply.outputs.size(); ++i) {
      const CallOutput wanted = i < request_.outputs.size() ? request_.outputs[i] : CallOutput{};
      CallValue value{std::move(reply.outputs[i].value), !wanted.drop, {}};
      if (wanted.pulls > 0) {
        auto ticket = places_.tickets.keep(session_->number(), value.value, wanted.pulls);
        if (!ticket) {
          places_.tickets.release(session_->number(), kept);
          return std::move(ticket).error().within({Where::kOutput, facts_->outputs[i].name});
        }
        kept.push_back(value.ticket = *std::move(ticket));
      }
      values.push_back(std::move(value));
    }
    // The session may have ended beside this: then nobody else frees them.
    if (!kept.empty() && session_->ended()) {
      places_.tickets.release(session_->number(), kept);
      return make_error(Code::kCancelled, "the session has ended meanwhile");
    }
    return values;
  }

  /// With the caller's number of the frame, which the stage does not know.
  Error in_callers_words(Error error) const {
    Where* const frame = error.find(Where::kFrame);
    if (frame != nullptr) {
      frame->number = request_.frame;
    } else {
      error = std::move(error).within({Where::kFrame, request_.frame});
    }
    const bool named = facts_ == nullptr || error.find(Where::kStage) != nullptr;
    return named ? error : std::move(error).within({Where::kStage, facts_->name});
  }

  void give_back() { places_.budget.give_back(std::exchange(budgeted_, 0)); }

  void finish(Result<std::vector<CallValue>> outputs) {
    give_back();
    if (!outputs) outputs = in_callers_words(std::move(outputs).error());
    {
      const std::scoped_lock lock(mutex_);
      calls_.clear();  // They know this one.
    }
    std::exchange(done_, nullptr)({std::move(outputs), times_});
  }

  const std::shared_ptr<Session> session_;
  const CallPlaces places_;
  CallRequest request_;
  CallDone done_;
  std::shared_ptr<const StageFacts> facts_;
  CallTimes times_;
  std::uint64_t budgeted_ = 0;

  std::mutex mutex_;  // Guards all below.
  std::vector<std::shared_ptr<serve::Call>> calls_;
  std::size_t pending_ = 0;
  std::set<std::size_t> pulling_;  // Inputs that are on their way here.
  std::optional<Error> error_;
};

}  // namespace

std::shared_ptr<Call> start_call(const std::shared_ptr<Session>& session, const CallPlaces& places,
                                 CallRequest request, CallDone done) {
  const auto call =
      std::make_shared<RunningCall>(session, places, std::move(request), std::move(done));
  call->begin();
  return call;
}

}  // namespace penstock::host
