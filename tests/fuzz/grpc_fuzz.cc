// libFuzzer target over the messages of gRPC, below the wire: requests, uploads, regions.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "penstock/app/app.h"
#include "penstock/grpc/answers.h"
#include "penstock/grpc/inference.pb.h"
#include "penstock/grpc/wire.h"
#include "penstock/serve/server_options.h"
#include "penstock/serve/shared_memory.h"

namespace {

namespace fs = std::filesystem;
using penstock::DType;
using penstock::Result;
using penstock::serve::Reply;
using penstock::serve::Server;

constexpr std::size_t kRegionBytes = 4096;

void require(bool holds) {
  if (!holds) std::abort();
}

/// One server for all inputs, with a model "double" that is a function: y = 2 * x, f32[2].
class Served {
 public:
  Served() : key_("/penstock_fuzz_" + std::to_string(getpid())) {
    const int object = ::shm_open(key_.c_str(), O_RDWR | O_CREAT, 0600);
    require(object >= 0 && ::ftruncate(object, kRegionBytes) == 0);
    ::close(object);
    const auto folder = fs::temp_directory_path() / key_.substr(1);
    Server::Options options;
    const auto numbers = penstock::Type::tensor(
        DType::kF32, std::vector<penstock::Dim>{{2, "", penstock::Dim::kOpen}});
    options.functions = {penstock::function::stateless(
        "double", {{"x", numbers}}, {{"y", numbers}},
        [](penstock::function::Inputs in, penstock::function::Outputs out) -> penstock::Status {
          for (std::size_t i = 0; i < 2; ++i) {
            out[0]->as<float>()[i] = 2 * in[0]->as<float>()[i];
          }
          return {};
        })};
    penstock::app::App app;
    app.inputs = {{"x", std::nullopt, {}}};
    penstock::app::Node node;
    node.name = "n";
    node.runs = penstock::app::FunctionNode{"double", {}, {}, 1, {}};
    node.inputs.push_back({"x", "x", {}});
    app.nodes.push_back(node);
    app.outputs = {{"out", "n.y", {}}};
    require(static_cast<bool>(penstock::app::write_package(app, folder, {}, options.functions)));
    options.models.push_back({"double", 1, folder});
    options.limits.models = 4;
    options.limits.upload_bytes = 1U << 20U;
    auto started = Server::start(options, {});
    require(static_cast<bool>(started));
    server_ = *std::move(started);
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;
  ~Served() { ::shm_unlink(key_.c_str()); }

  /// A request, of one call or of a stream: every one is answered, and the answer can be written.
  void infer(std::string_view bytes) {
    const ::grpc::Slice slice(bytes.data(), bytes.size());
    std::string id;
    auto request = penstock::grpc::read_request(::grpc::ByteBuffer(&slice, 1), id);
    if (!request) {
      require(penstock::grpc::write_stream_error(request.error(), id).Length() > 0);
      return;
    }
    for (const auto& input : request->inputs) {
      if (input.place || input.value.kind() == penstock::Tensor::Kind::kNone) continue;
      require(input.value.dims() == input.dims && input.value.dtype() == input.dtype);
    }
    request->deadline.reset();
    std::promise<Result<Reply>> answered;
    auto answer = answered.get_future();
    const auto call = server_->infer(
        *std::move(request), [&](Result<Reply> reply) { answered.set_value(std::move(reply)); });
    auto reply = answer.get();
    if (reply) require(penstock::grpc::write_stream_reply(*std::move(reply))->Length() > 0);
  }

  void load(std::string_view bytes) {
    inference::RepositoryModelLoadRequest message;
    if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
    const std::string name = message.model_name();
    const auto options = penstock::grpc::read_load(message);
    if (!options || name == "double") return;
    if (server_->load(name, *options)) static_cast<void>(server_->unload(name));
  }

  /// A region of our object wherever the message says, and a place in it.
  void share(std::string_view bytes) {
    inference::SystemSharedMemoryRegisterRequest message;
    if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
    auto& regions = server_->shared_memory();
    const bool ours = message.key().empty();
    const auto added = regions.add(
        {message.name(), ours ? key_ : message.key(), message.offset(), message.byte_size()});
    if (added && ours) {
      require(message.byte_size() > 0 && message.offset() <= kRegionBytes);
      require(message.byte_size() <= kRegionBytes - message.offset());
      const auto place = regions.at({message.name(), message.offset(), message.byte_size()});
      require(place || message.offset() > 0);
      if (place) place->bytes.back() = place->bytes.front();
    }
    regions.remove("");
  }

 private:
  const std::string key_;
  std::unique_ptr<Server> server_;
};

}  // namespace

/// The first byte says which message the others are.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Served served;
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'l') {
    served.load(rest);
  } else if (data[0] == 's') {
    served.share(rest);
  } else {
    served.infer(rest);
  }
  return 0;
}
