// libFuzzer target over HTTP: bytes of a connection, and the bodies of requests.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "penstock/http/server.h"
#include "penstock/http/unpack.h"
#include "penstock/rest/answers.h"
#include "penstock/rest/infer.h"
#include "penstock/serve/access.h"

namespace {

using penstock::http::Body;

/// One server for all inputs; each is the bytes of a connection of its own.
class Echo {
 public:
  Echo() {
    penstock::http::Router router;
    const auto echo = [](penstock::http::Request request,
                         const penstock::http::Responder& responder) {
      penstock::http::Response response;
      response.body.push_back(
          {.bytes = {request.body.data.get(), request.body.size}, .owner = request.body.data});
      responder.send(std::move(response));
    };
    for (const char* method : {"GET", "POST"}) router.add(method, "/{any}", {}, echo);
    penstock::http::Options options;
    options.address = "0.0.0.0:0";
    options.threads = 1;
    options.limits.body_bytes = 1U << 20U;
    options.limits.header_bytes = 2048;
    auto started = penstock::http::Server::start(options, router);
    if (!started) std::abort();
    server_ = *std::move(started);
    const auto& address = server_->address();
    port_ = static_cast<std::uint16_t>(std::atoi(address.substr(address.find(':') + 1).c_str()));
  }

  void send(std::string_view bytes) {
    const int client = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port_);
    // The system keeps a pair of addresses for a while after its connection: each has another one.
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 256 * (++connections_ % 0xFFFF));
    if (connect(client, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) {
      close(client);  // No pair is free for now: the next input finds one.
      return;
    }
    // The server may have closed before all is sent.
    static_cast<void>(::send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL));
    shutdown(client, SHUT_WR);
    std::array<char, 4096> answer{};
    while (recv(client, answer.data(), answer.size(), 0) > 0) {
    }
    close(client);
  }

 private:
  std::unique_ptr<penstock::http::Server> server_;
  std::uint16_t port_ = 0;
  std::uint32_t connections_ = 0;
};

/// As the server keeps it, with room behind its end.
Body body_of(std::string_view text) {
  const auto kept = std::make_shared<std::string>(text);
  kept->append(Body::kPadding, '\0');
  return {.data = {kept, reinterpret_cast<std::byte*>(kept->data())}, .size = text.size()};
}

/// Whatever is read fills its shape.
void read_infer(std::string_view text, std::size_t json_bytes) {
  const auto read = penstock::rest::read_infer(body_of(text), json_bytes);
  if (!read) return;
  for (const auto& input : read->request.inputs) {
    if (input.place) continue;
    if (input.value.dims() != input.dims || input.value.dtype() != input.dtype) std::abort();
    const bool strings = input.dtype == penstock::DType::kString;
    if (strings && input.value.strings().size() != input.value.count()) std::abort();
  }
}

void read_others(std::string_view text) {
  const Body body = body_of(text);
  static_cast<void>(penstock::rest::read_load(body));
  static_cast<void>(penstock::rest::read_index(body));
  static_cast<void>(penstock::rest::read_region(body, "r"));
  static_cast<void>(penstock::http::percent_decoded(text));
  static_cast<void>(penstock::serve::bearer_token(text));
  const auto unpacked = penstock::http::unpack(text, 1U << 20U);
  if (unpacked && unpacked->size() > 1U << 20U) std::abort();
}

}  // namespace

/// The first byte says what the others are: a connection's bytes, or a body with so much JSON.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Echo echo;
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'h') {
    echo.send(rest);
  } else if (data[0] == 'o') {
    read_others(rest);
  } else {
    read_infer(rest, data[0] == 'j' ? rest.size() : data[0]);
  }
  return 0;
}
