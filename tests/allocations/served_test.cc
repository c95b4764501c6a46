// A server whose memory is refused at one allocation after the other: whoever waits hears of it.
#include <atomic>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "penstock/app/app.h"
#include "penstock/rest/front.h"
#include "penstock/serve/server.h"
#include "penstock/serve/server_options.h"
#include "tests/support/refused_memory.h"
#include "tests/support/temporary_folder.h"

namespace penstock {
namespace {

using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support
using function::Inputs;
using function::Outputs;

constexpr const char* kInfer =
    R"({"id":"a request that has a name of some length","inputs":[{"name":"x","shape":[2],)"
    R"("datatype":"FP32","data":[3,4]}]})";
constexpr const char* kSequence =
    R"({"id":"a request that has a name of some length","parameters":{"sequence_id":"a sequence )"
    R"(with a long name","sequence_start":true,"sequence_end":true},"inputs":[{"name":"x",)"
    R"("shape":[2],"datatype":"FP32","data":[3,4]}]})";

/// Two models over HTTP: "double", and "sum", which has states.
class ServedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!PENSTOCK_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer takes malloc's place itself";
    t_spared = true;
    g_others_spared = true;
    const auto type = Type::tensor(DType::kF32, std::vector<Dim>{{2, "", Dim::kOpen}});
    const auto add = [this](Inputs in, Outputs out) -> Status {
      for (std::size_t i = 0; i < 2; ++i)
        out[0]->as<float>()[i] = in[0]->as<float>()[i] + in.back()->as<float>()[i];
      if (const auto k = next_.exchange(-1); k >= 0) {
        t_tester = true;
        g_until_failure = k;
      }
      return {};
    };
    serve::Server::Options options;
    options.functions = {
        function::stateless("double", {{"x", type}}, {{"y", type}}, add),
        function::stateless("sum", {{"x", type}, {"before", type}}, {{"y", type}}, add)};
    for (const char* name : {"double", "sum"}) options.models.push_back(package(name, options));
    auto access = serve::Access::open({});
    ASSERT_TRUE(access) << access.error().message();
    access_.emplace(*std::move(access));
    auto server = serve::Server::start(options, {});
    ASSERT_TRUE(server) << server.error().message();
    server_ = *std::move(server);
    auto front = rest::Front::start(*server_, *access_, {.address = "127.0.0.1:0"});
    ASSERT_TRUE(front) << front.error().message();
    front_ = *std::move(front);
  }
  void TearDown() override {
    g_until_failure = -1;
    g_others_spared = false;
  }

  serve::ModelSource package(const std::string& name, const serve::Server::Options& options) {
    app::App app;
    app.inputs = {{"x", std::nullopt, {}}};
    app::Node node;
    node.name = "n";
    node.runs = app::FunctionNode{name, {}, {}, 1, {}};
    node.inputs.push_back({"x", "x", {}});
    app.nodes.push_back(node);
    app.outputs = {{"out", "n.y", {}}};
    if (name == "sum") app.states = {{"n.y", "n.before", {}, {}}};
    const auto written = app::write_package(app, folder_.path() / name, {}, options.functions);
    EXPECT_TRUE(written) << written.error().message();
    return {name, 1, folder_.path() / name, {}};
  }

  /// What the server says before it ends the connection, or "silence".
  [[nodiscard]] std::string ask(const std::string& model, const std::string& body) const {
    const int client = socket(AF_INET, SOCK_STREAM, 0);
    const timeval patience{.tv_sec = 60, .tv_usec = 0};
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    const auto& address = front_->address();
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.find(':') + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(client, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    const std::string text = concat("POST /v2/models/", model,
                                    "/infer HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n",
                                    "Content-Length: ", body.size(), "\r\n\r\n", body);
    send(client, text.data(), text.size(), MSG_NOSIGNAL);
    std::string answer;
    char bytes[4096];
    ssize_t got = 0;
    while ((got = recv(client, bytes, sizeof bytes, 0)) > 0)
      answer.append(bytes, static_cast<std::size_t>(got));
    const bool silent = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    close(client);
    return silent ? "silence" : answer;
  }

  /// Refuses each allocation of the thread that has computed a request and answers it, in a request
  /// of its own. \returns how many came about
  std::int64_t refuse_one_by_one(const std::string& model, const std::string& body) {
    EXPECT_TRUE(ask(model, body).starts_with("HTTP/1.1 200")) << ask(model, body);
    const auto refused = refused_one_by_one([&](std::int64_t k) {
      next_ = k;
      const auto answer = ask(model, body);
      const bool came_about = g_until_failure.exchange(-1) < 0;
      EXPECT_NE(answer, "silence");
      EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.1 ")) << answer;
      return came_about;
    });
    const auto answer = ask(model, body);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200")) << answer;
    return refused;
  }

  std::atomic<std::int64_t> next_{-1};  // That fails, counted from the end of the next call.
  TemporaryFolder folder_;
  std::optional<serve::Access> access_;
  std::unique_ptr<serve::Server> server_;
  std::unique_ptr<rest::Front> front_;
};

TEST_F(ServedTest, WhoeverAsksHearsOfTheKthAllocationThatFails) {
  EXPECT_GT(refuse_one_by_one("double", kInfer), 20);
}

TEST_F(ServedTest, WhoeverAsksInASequenceHearsOfTheKthAllocationThatFails) {
  EXPECT_GT(refuse_one_by_one("sum", kSequence), 20);
}

}  // namespace
}  // namespace penstock
