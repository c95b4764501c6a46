// A service with a Penstock pipeline inside: service PACKAGE PORT. Each client of the port sends
// frames, the bytes of the network's input one frame behind the other, and gets the bytes of its
// output for each.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <future>
#include <iostream>
#include <optional>
#include <span>
#include <string_view>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "penstock/backend/registry.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/plan/package.h"

namespace {

using penstock::Tensor;
using penstock::pipeline::Output;
using penstock::pipeline::Pipeline;

int fail(const std::string& what) {
  std::cerr << "service: " << what << '\n';
  return 1;
}

/// A new tensor for each frame: the pipeline reads it in place, until the frame has come out.
std::optional<Tensor> receive(int client, const penstock::Type& type) {
  std::vector<std::int64_t> sizes;
  for (const auto& dim : type.dims) sizes.push_back(dim.size);
  auto frame = Tensor::allocate(type.dtype, sizes);
  auto bytes = std::as_writable_bytes(frame.as<char>());
  if (recv(client, bytes.data(), bytes.size(), MSG_WAITALL) != static_cast<ssize_t>(bytes.size())) {
    return std::nullopt;  // The client has closed the connection.
  }
  return frame;
}

/// One client, on a thread of its own. Frames of all clients share the pipeline.
void serve(int client, Pipeline& pipeline) {
  while (auto frame = receive(client, pipeline.plan().inputs[0].type)) {
    std::promise<Output> promise;
    const auto number =
        pipeline.push(std::span(&*frame, 1), penstock::pipeline::kPatient,
                      {.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5),
                       .done = [&](Output output) { promise.set_value(std::move(output)); },
                       .in_order = false});
    if (!number) {
      fail(number.error().message());
      break;
    }
    const auto output = promise.get_future().get();
    if (!output.ok()) {  // An error belongs to its frame: the service goes on.
      fail(output.error().message());
      break;
    }
    const auto bytes = std::as_bytes(output[0].as<char>());
    if (send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) break;
  }
  close(client);
}

/// Whether a frame is one tensor in and one out, and how many bytes it has is known.
bool is_simple(const penstock::plan::Plan& plan) {
  if (plan.inputs.size() != 1 || plan.outputs.size() != 1) return false;
  return std::ranges::all_of(plan.inputs[0].type.dims, [](const auto& dim) { return dim.fixed(); });
}

/// The number that the text is; none: it is no port's.
std::optional<std::uint16_t> port_of(std::string_view text) {
  std::uint16_t port = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, port);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return port;
}

/// A socket that listens on this port of this machine only; port 0: any that is free, printed.
int listen_on(std::uint16_t port) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  const int yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const at = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  if (bind(listener, at, size) != 0 || listen(listener, 16) != 0) return -1;
  getsockname(listener, at, &size);
  std::cout << "ready on port " << ntohs(address.sin_port) << std::endl;
  return listener;
}

}  // namespace

int main(int argc, char** argv) {
  const std::span arguments(argv, static_cast<std::size_t>(argc));
  if (arguments.size() != 3) return fail("expected PACKAGE PORT");
  const auto port = port_of(arguments[2]);
  if (!port) return fail("port '" + std::string(arguments[2]) + "': expected 0 to 65535");
  // SIGHUP reads the package again while frames flow. It is kept from all threads, those of the
  // pipeline too, which have the mask of the thread that starts them; one of its own waits for it.
  sigset_t hang_up;
  sigemptyset(&hang_up);
  sigaddset(&hang_up, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &hang_up, nullptr);

  const auto package = penstock::plan::load_package(arguments[1]);
  if (!package) return fail(package.error().message());
  if (!is_simple(package->plan)) {
    return fail("expected a package of one input, of a fixed shape, and one output");
  }
  const auto backends = penstock::backend::Registry::load();
  const auto pipeline = Pipeline::start(package->plan, package->folder, backends);
  if (!pipeline) return fail(pipeline.error().message());

  std::thread([&] {
    for (int signal = 0; sigwait(&hang_up, &signal) == 0;) {
      const auto fresh = penstock::plan::load_package(arguments[1]);
      const auto replaced = fresh ? (*pipeline)->replace(fresh->plan, fresh->folder, backends)
                                  : penstock::Status(fresh.error());
      std::cout << (replaced ? "replaced" : replaced.error().message()) << std::endl;
    }
  }).detach();

  const int listener = listen_on(*port);
  if (listener < 0) return fail("cannot listen on port " + std::string(arguments[2]));
  while (true) {
    const int client = accept(listener, nullptr, nullptr);
    if (client >= 0) {
      std::thread(serve, client, std::ref(**pipeline)).detach();
    } else if (errno == EBADF || errno == EINVAL || errno == ENOTSOCK) {
      return fail("the port is closed");
    } else {
      // The client has gone again, or too many files are open, which those who end give back.
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
}
