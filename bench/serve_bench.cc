// What clients see of a model: how many frames a second, and how long each takes.
//
//   serve_bench grpc ADDRESS MODEL CLIENTS SECONDS [RATE]    a server of the Open Inference
//   Protocol serve_bench local PACKAGE CLIENTS SECONDS [RATE]         the pipeline in this process
//
// Each of CLIENTS has one request in progress, over a connection of its own; without RATE it sends
// the next when the answer is there, with it CLIENTS are as many as may be in progress, and
// requests are due every 1/RATE seconds: latency counts from when they were due. The first fifth
// of the time is not counted. Inputs are random and made before; of answers the status is looked
// at. Prints one line of JSON; `cpus` is how many this process kept busy. bench/serve.py runs it
// beside other servers.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <random>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <sys/resource.h>

#include "penstock/backend/registry.h"
#include "penstock/grpc/inference.grpc.pb.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/plan/package.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;
using Nanoseconds = std::chrono::nanoseconds;

struct Load {
  int clients = 1;
  double seconds = 1;
  double rate = 0;  ///< Requests a second; 0: as fast as answers come.
};

/// When requests are due, for all clients together.
class Pace {
 public:
  explicit Pace(const Load& load)
      : between_(load.rate > 0 ? Nanoseconds(static_cast<std::int64_t>(1e9 / load.rate))
                               : Nanoseconds(0)),
        start_(Clock::now()) {}

  /// Sleeps until the caller's next request is due. \returns when it was due.
  Clock::time_point wait() {
    if (between_.count() == 0) return Clock::now();
    const auto due = start_ + between_ * next_.fetch_add(1);
    std::this_thread::sleep_until(due);
    return due;
  }

 private:
  const Nanoseconds between_;
  const Clock::time_point start_;
  std::atomic<std::int64_t> next_{0};
};

/// Latencies of one client.
struct Seen {
  std::vector<double> ms;
  std::uint64_t errors = 0;
};

/// One request at a time.
class Client {
 public:
  virtual ~Client() = default;
  /// False: it failed.
  virtual bool ask() = 0;
};

/// Of this process, so far.
double cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

void print(const std::vector<Seen>& all, double seconds, double cpus) {
  std::vector<double> ms;
  std::uint64_t errors = 0;
  for (const auto& seen : all) {
    ms.insert(ms.end(), seen.ms.begin(), seen.ms.end());
    errors += seen.errors;
  }
  std::ranges::sort(ms);
  const auto quantile = [&](double q) {
    return ms.empty() ? 0.0 : ms[static_cast<std::size_t>(q * static_cast<double>(ms.size() - 1))];
  };
  std::cout << "{\"frames_per_second\": " << static_cast<double>(ms.size()) / seconds
            << ", \"p50_ms\": " << quantile(0.5) << ", \"p99_ms\": " << quantile(0.99)
            << ", \"cpus\": " << cpus << ", \"errors\": " << errors << "}\n";
}

/// Lets each client ask for as long as the load says.
void run(const std::vector<std::unique_ptr<Client>>& clients, const Load& load) {
  const auto counted = Clock::now() + std::chrono::duration_cast<Nanoseconds>(
                                          std::chrono::duration<double>(load.seconds / 5));
  const auto end = Clock::now() + std::chrono::duration_cast<Nanoseconds>(
                                      std::chrono::duration<double>(load.seconds));
  Pace pace(load);
  const double used = cpu_seconds();
  std::vector<Seen> seen(clients.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    threads.emplace_back([&, i] {
      while (true) {
        const auto due = pace.wait();
        if (due >= end || Clock::now() >= end) return;
        const bool ok = clients[i]->ask();
        const auto now = Clock::now();
        if (!ok) {
          ++seen[i].errors;
        } else if (now >= counted && now <= end) {
          seen[i].ms.push_back(std::chrono::duration<double, std::milli>(now - due).count());
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  print(seen, load.seconds * 4 / 5, (cpu_seconds() - used) / load.seconds);
}

void fill(void* data, std::size_t floats) {
  static std::mt19937 random(1);  // NOLINT: every run has equal frames
  std::uniform_real_distribution<float> values(-1, 1);
  for (std::size_t i = 0; i < floats; ++i) static_cast<float*>(data)[i] = values(random);
}

// -------------------------------------------------------------------------------------- a server

/// Many calls' completions, by one thread.
class Completions {
 public:
  Completions()
      : thread_([this] {
          void* tag = nullptr;
          bool ok = false;
          while (queue_.Next(&tag, &ok)) static_cast<std::binary_semaphore*>(tag)->release();
        }) {}
  ~Completions() {
    queue_.Shutdown();
    thread_.join();
  }
  Completions(const Completions&) = delete;
  Completions& operator=(const Completions&) = delete;
  ::grpc::CompletionQueue& queue() { return queue_; }

 private:
  ::grpc::CompletionQueue queue_;
  std::thread thread_;
};

class RemoteClient final : public Client {
 public:
  RemoteClient(const std::string& address, ::grpc::ByteBuffer request, Completions& completions)
      : stub_(connect(address)), request_(std::move(request)), completions_(completions) {}

  static std::shared_ptr<::grpc::Channel> connect(const std::string& address) {
    ::grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxReceiveMessageSize(-1);
    return ::grpc::CreateCustomChannel(address, ::grpc::InsecureChannelCredentials(), arguments);
  }

  bool ask() override {
    ::grpc::ClientContext context;
    context.set_wait_for_ready(true);  // Where many connect at once, one may have to try again.
    ::grpc::ByteBuffer answer;
    ::grpc::Status status;
    const auto call = stub_.PrepareUnaryCall(&context, "/inference.GRPCInferenceService/ModelInfer",
                                             request_, &completions_.queue());
    call->StartCall();
    call->Finish(&answer, &status, &done_);
    done_.acquire();
    if (!status.ok() && !told_.exchange(true)) std::cerr << status.error_message() << '\n';
    return status.ok() && answer.Length() > 0;
  }

 private:
  static inline std::atomic<bool> told_{false};
  ::grpc::GenericStub stub_;
  const ::grpc::ByteBuffer request_;
  Completions& completions_;
  std::binary_semaphore done_{0};
};

std::size_t size_of(const std::string& datatype) {
  if (datatype == "FP64" || datatype.ends_with("INT64")) return 8;
  if (datatype == "FP32" || datatype.ends_with("INT32")) return 4;
  if (datatype == "FP16" || datatype.ends_with("INT16")) return 2;
  return 1;
}

/// A request that fits the model, as its metadata tell; null where they cannot be had.
std::unique_ptr<::grpc::ByteBuffer> make_request(const std::string& address,
                                                 const std::string& model) {
  const auto stub = inference::GRPCInferenceService::NewStub(RemoteClient::connect(address));
  ::grpc::ClientContext context;
  inference::ModelMetadataRequest ask;
  ask.set_name(model);
  inference::ModelMetadataResponse about;
  if (const auto status = stub->ModelMetadata(&context, ask, &about); !status.ok()) {
    std::cerr << address << ": " << status.error_message() << '\n';
    return nullptr;
  }
  inference::ModelInferRequest request;
  request.set_model_name(model);
  for (const auto& input : about.inputs()) {
    auto* tensor = request.add_inputs();
    tensor->set_name(input.name());
    tensor->set_datatype(input.datatype());
    std::size_t count = 1;
    for (const auto dim : input.shape()) {
      tensor->add_shape(std::max<std::int64_t>(dim, 1));
      count *= static_cast<std::size_t>(std::max<std::int64_t>(dim, 1));
    }
    std::string raw(count * size_of(input.datatype()), '\0');
    if (input.datatype() == "FP32") fill(raw.data(), count);
    request.add_raw_input_contents(std::move(raw));
  }
  const ::grpc::Slice slice(request.SerializeAsString());
  return std::make_unique<::grpc::ByteBuffer>(&slice, 1);
}

int run_remote(const std::string& address, const std::string& model, const Load& load) {
  const auto request = make_request(address, model);
  if (request == nullptr) return 1;
  Completions completions;
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < load.clients; ++i) {
    clients.push_back(std::make_unique<RemoteClient>(address, *request, completions));
  }
  run(clients, load);
  return 0;
}

// ----------------------------------------------------------------------------------- in process

class LocalClient final : public Client {
 public:
  LocalClient(pipeline::Pipeline& pipeline, std::vector<Tensor> frame, std::uint64_t stream)
      : pipeline_(pipeline), frame_(std::move(frame)), stream_(stream) {}

  bool ask() override {
    pipeline::FrameOptions options;
    options.in_order = false;
    options.stream = stream_;
    options.done = [this](const pipeline::Output& output) {
      ok_ = output.ok();
      done_.release();
    };
    if (!pipeline_.push(frame_, pipeline::kPatient, options)) return false;
    done_.acquire();
    return ok_;
  }

 private:
  pipeline::Pipeline& pipeline_;
  const std::vector<Tensor> frame_;
  const std::uint64_t stream_;
  bool ok_ = false;
  std::binary_semaphore done_{0};
};

std::vector<Tensor> make_frame(const plan::Plan& plan) {
  std::vector<Tensor> frame;
  for (const auto& input : plan.inputs) {
    std::vector<std::int64_t> dims;
    for (const auto& dim : input.type.dims) dims.push_back(std::max<std::int64_t>(dim.size, 1));
    Tensor tensor = Tensor::allocate(input.type.dtype, dims);
    if (input.type.dtype == DType::kF32) fill(tensor.data(), tensor.count());
    frame.push_back(std::move(tensor));
  }
  return frame;
}

int run_local(const std::string& file, const Load& load) {
  auto package = plan::load_package(file);
  if (!package) {
    std::cerr << package.error().message() << '\n';
    return 1;
  }
  package->plan.streams.most = std::max(package->plan.streams.most, load.clients + 1);
  const auto backends = backend::Registry::load();
  const auto pipeline =
      pipeline::Pipeline::start(package->plan, package->folder, backends, pipeline::Options{});
  if (!pipeline) {
    std::cerr << pipeline.error().message() << '\n';
    return 1;
  }
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < load.clients; ++i) {
    clients.push_back(std::make_unique<LocalClient>(**pipeline, make_frame(package->plan),
                                                    static_cast<std::uint64_t>(i)));
  }
  run(clients, load);
  return 0;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const bool remote = !words.empty() && words[0] == "grpc";
  const std::size_t first = remote ? 3 : 2;  // Of the load's words.
  if (words.size() < first + 2 || (!remote && words[0] != "local")) {
    std::cerr << "usage: serve_bench grpc ADDRESS MODEL CLIENTS SECONDS [RATE]\n"
                 "       serve_bench local PACKAGE CLIENTS SECONDS [RATE]\n";
    return 2;
  }
  penstock::Load load{.clients = std::atoi(words[first].c_str()),
                      .seconds = std::atof(words[first + 1].c_str())};
  if (words.size() > first + 2) load.rate = std::atof(words[first + 2].c_str());
  return remote ? penstock::run_remote(words[1], words[2], load)
                : penstock::run_local(words[1], load);
}
