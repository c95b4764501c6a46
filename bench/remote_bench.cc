// What a stage on another machine costs beside bare gRPC: frames a second and the time of one.
//
//   remote_bench oip://HOST:PORT/MODEL        the model: y = x, f32[n], of any server
//   (bench/remote.py)
//
// Bare gRPC: an echo of the same bytes by a server of callbacks in a process of its own, with as
// many calls in flight. Both in turn, in one run; the medians of the rounds and of their ratios are
// told. Left out: the network, as all is on one machine; computing, as the model computes nothing.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/grpc/client/answer.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/plan/plan.h"

namespace {

using namespace penstock;  // NOLINT(google-build-using-namespace): a program
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 20;
constexpr auto kRound = std::chrono::milliseconds(400);
constexpr int kInFlight = 8;
constexpr std::size_t kLargeBytes = 600'000, kSmallBytes = 4096;

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "remote_bench: %s\n", why.c_str());
  std::exit(1);
}

// ---------------------------------------------------------------------------------- bare gRPC

class Echo final : public ::grpc::CallbackGenericService {
  class Reactor final : public ::grpc::ServerGenericBidiReactor {
   public:
    Reactor() { StartRead(&message_); }
    void OnReadDone(bool ok) override {
      ok ? StartWriteAndFinish(&message_, {}, ::grpc::Status::OK) : Finish(::grpc::Status::OK);
    }
    void OnDone() override { delete this; }

   private:
    ::grpc::ByteBuffer message_;
  };
  ::grpc::ServerGenericBidiReactor* CreateReactor(::grpc::GenericCallbackServerContext*) override {
    return new Reactor;  // NOLINT(*-owning-memory): deletes itself
  }
};

/// In a process of its own. \returns its port.
int start_echo() {
  int ends[2];
  if (pipe(ends) != 0) fail("no pipe");
  if (fork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Echo echo;
    int port = 0;
    ::grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(-1);
    builder.AddListeningPort("127.0.0.1:0", ::grpc::InsecureServerCredentials(), &port);
    builder.RegisterCallbackGenericService(&echo);
    const auto server = builder.BuildAndStart();
    if (write(ends[1], &port, sizeof(port)) != sizeof(port)) std::exit(1);
    server->Wait();
  }
  int port = 0;
  if (read(ends[0], &port, sizeof(port)) != sizeof(port)) fail("no echo");
  return port;
}

/// What is called with what.
struct Question {
  std::string method;
  ::grpc::ByteBuffer request;
};

Question echo_of(std::size_t bytes) {
  const ::grpc::Slice slice(std::string(bytes, 'x'));
  return {"/bench/Echo", ::grpc::ByteBuffer(&slice, 1)};
}

class Bare {
 public:
  explicit Bare(const std::string& address) {
    ::grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    stub_ = std::make_unique<::grpc::GenericStub>(
        ::grpc::CreateCustomChannel(address, ::grpc::InsecureChannelCredentials(), arguments));
  }

  /// Calls a second.
  double rate(const Question& question, int in_flight) {
    const auto begin = Clock::now();
    int started = 0, ended = 0;
    for (; started < in_flight; ++started) start(question);
    while (ended < started) {
      finish();
      ++ended;
      if (Clock::now() - begin < kRound) {
        start(question);
        ++started;
      }
    }
    return ended / std::chrono::duration<double>(Clock::now() - begin).count();
  }
  /// Of one call at a time, in microseconds.
  void times(const Question& question, int calls, std::vector<double>& us) {
    for (int i = 0; i < calls; ++i) {
      const auto begin = Clock::now();
      start(question);
      finish();
      us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    }
  }

 private:
  struct Call {
    ::grpc::ClientContext context;
    std::unique_ptr<::grpc::ClientAsyncResponseReader<::grpc::ByteBuffer>> reader;
    ::grpc::ByteBuffer reply;
    ::grpc::Status status;
  };
  void start(const Question& question) {
    auto* call = new Call;  // NOLINT(*-owning-memory): finish() deletes it
    call->reader =
        stub_->PrepareUnaryCall(&call->context, question.method, question.request, &queue_);
    call->reader->StartCall();
    call->reader->Finish(&call->reply, &call->status, call);
  }
  void finish() {
    void* tag = nullptr;
    bool ok = false;
    queue_.Next(&tag, &ok);
    const std::unique_ptr<Call> call(static_cast<Call*>(tag));
    if (!call->status.ok()) fail(call->status.error_message());
  }

  std::unique_ptr<::grpc::GenericStub> stub_;
  ::grpc::CompletionQueue queue_;
};

// ------------------------------------------------------------------------------------ pipelines

Tensor frame_of(std::size_t bytes) {
  return Tensor::allocate(DType::kF32, {static_cast<std::int64_t>(bytes / sizeof(float))});
}

plan::Plan plan_of(std::size_t bytes) {
  const Type type = frame_of(bytes).type();
  plan::Plan plan;
  plan.model = "bench";
  plan.inputs = {{"x", type}};
  plan.outputs = {{"y", type}};
  plan::Stage stage;
  stage.name = "stage";
  stage.inputs = {"x"};
  stage.outputs = {"y"};
  plan.stages.push_back(std::move(stage));
  return plan;
}

std::unique_ptr<pipeline::Pipeline> start(plan::Plan plan, const pipeline::Options& options) {
  static const auto backends = backend::Registry::load();
  plan::connect(plan);
  for (auto& edge : plan.edges) edge.capacity = 2 * kInFlight;
  auto started = pipeline::Pipeline::start(plan, ".", backends, options);
  if (!started) fail(started.error().message());
  return *std::move(started);
}

std::unique_ptr<pipeline::Pipeline> far_stage(const plan::ServedModel& model, std::size_t bytes) {
  auto plan = plan_of(bytes);
  auto& stage = plan.stages.front();
  stage.devices = {{.host = model.address, .kind = device::Device::Kind::kServer}};
  stage.lanes = kInFlight;
  plan::Partition partition;
  partition.backend = plan::kRemoteBackend;
  partition.served = model;
  partition.inputs = {"x"};
  partition.outputs = {"y"};
  stage.partitions.push_back(std::move(partition));
  return start(std::move(plan), {});
}

/// The same with a function here that does nothing: what the pipeline takes without the way.
std::unique_ptr<pipeline::Pipeline> near_stage(std::size_t bytes) {
  auto plan = plan_of(bytes);
  auto& stage = plan.stages.front();
  stage.devices = {{.host = {}, .cpus = {device::inherited_cpus().front()}}};
  plan::Partition partition;
  partition.backend = plan::kFunctionBackend;
  partition.inputs = {"x"};
  partition.outputs = {"y"};
  partition.options = {{"function", "nothing"}};
  stage.partitions.push_back(std::move(partition));
  const Type& type = plan.inputs[0].type;
  auto nothing = function::stateless("nothing", {{"x", type}}, {{"y", type}},
                                     [](const auto&, const auto&) { return Status(); });
  pipeline::Options options;
  options.functions = {std::move(nothing)};
  return start(std::move(plan), options);
}

void pop(pipeline::Pipeline& pipeline) {
  const auto output = pipeline.pop(std::chrono::seconds(60));
  if (!output || !*output) fail("a frame did not come out");
  if (!(*output)->ok()) fail((*output)->error().message());
}

double rate(pipeline::Pipeline& pipeline, const Tensor& frame) {
  const auto begin = Clock::now();
  int pushed = 0, popped = 0;
  const auto push = [&] {
    if (!pipeline.push(std::vector{frame})) fail("a frame did not go in");
    ++pushed;
  };
  while (pushed < kInFlight) push();
  while (popped < pushed) {
    pop(pipeline);
    ++popped;
    if (Clock::now() - begin < kRound) push();
  }
  return popped / std::chrono::duration<double>(Clock::now() - begin).count();
}

void times(pipeline::Pipeline& pipeline, const Tensor& frame, int frames, std::vector<double>& us) {
  for (int i = 0; i < frames; ++i) {
    const auto begin = Clock::now();
    if (!pipeline.push(std::vector{frame})) fail("a frame did not go in");
    pop(pipeline);
    us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// The model asked by bare gRPC: what of it is the server's.
Question infer_of(const plan::ServedModel& model, std::size_t bytes) {
  const Tensor frame = frame_of(bytes);
  const std::vector<penstock::grpc::ModelPort> ports = {{"x", frame.type()}};
  const std::vector<const Tensor*> inputs = {&frame};
  auto request =
      penstock::grpc::write_request({.model = model.name, .version = model.version}, ports, inputs);
  if (!request) fail(request.error().message());
  return {"/inference.GRPCInferenceService/ModelInfer", *std::move(request)};
}

void compare_rates(Bare& bare, const plan::ServedModel& model) {
  const auto pipeline = far_stage(model, kLargeBytes);
  const Tensor frame = frame_of(kLargeBytes);
  rate(*pipeline, frame);
  const Question echo = echo_of(kLargeBytes);
  bare.rate(echo, kInFlight);
  std::vector<double> ours, theirs, ratios;
  for (int round = 0; round < kRounds; ++round) {
    ours.push_back(rate(*pipeline, frame));
    theirs.push_back(bare.rate(echo, kInFlight));
    ratios.push_back(ours.back() / theirs.back());
  }
  std::printf("%zu bytes, %d in flight: stage %.0f frames/s, bare echo %.0f calls/s, ratio %.3f\n",
              kLargeBytes, kInFlight, median(ours), median(theirs), median(ratios));
}

void compare_times(Bare& bare, const plan::ServedModel& model) {
  const auto far = far_stage(model, kSmallBytes), near = near_stage(kSmallBytes);
  const Tensor frame = frame_of(kSmallBytes);
  const Question echo = echo_of(kSmallBytes), infer = infer_of(model, kSmallBytes);
  Bare server(model.address);
  constexpr int kCalls = 500;
  std::vector<double> ratios, far_us, near_us, bare_us, server_us;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double> with, without, alone, asked;
    times(*far, frame, kCalls, with);
    times(*near, frame, kCalls, without);
    bare.times(echo, kCalls, alone);
    server.times(infer, kCalls, asked);
    if (round == 0) continue;
    far_us.push_back(median(with));
    near_us.push_back(median(without));
    bare_us.push_back(median(alone));
    server_us.push_back(median(asked));
    ratios.push_back((far_us.back() - near_us.back()) / bare_us.back());
  }
  std::printf(
      "%zu bytes, one at a time, p50: stage %.0f us, a function here %.0f us, bare echo %.0f us, "
      "the "
      "server asked by bare gRPC %.0f us; added %.0f us, ratio %.2f\n",
      kSmallBytes, median(far_us), median(near_us), median(bare_us), median(server_us),
      median(far_us) - median(near_us), median(ratios));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) fail("expected oip://HOST:PORT/MODEL");
  const int port = start_echo();  // Before gRPC has threads here.
  const auto model = plan::parse_served_model(argv[1]);
  if (!model) fail(model.error().message());
  Bare bare("127.0.0.1:" + std::to_string(port));
  compare_rates(bare, *model);
  compare_times(bare, *model);
  return 0;
}
