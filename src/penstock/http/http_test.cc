// The server over raw sockets: pipelining, chunks, malformed requests, limits, timeouts and stop.
#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <boost/asio.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "penstock/http/pages.h"
#include "penstock/http/server.h"
#include "penstock/http/unpack.h"
#include "tests/support/no_more_threads.h"

namespace penstock::http {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// After which clients are given up in some tests; the others keep to it on a busy machine too.
constexpr milliseconds kBrief{600};

/// A client that sends what it is told, byte by byte.
class RawClient {
 public:
  explicit RawClient(const std::string& address) {
    socket_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.find(':') + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
    const timeval patience{.tv_sec = 60, .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  ~RawClient() { leave(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  void send(std::string_view text) const {
    while (!text.empty()) {
      const auto sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  /// All that comes until the server closes.
  std::string rest() {
    while (receive()) {
    }
    return std::exchange(held_, {});
  }
  /// One response, of a length that it tells.
  std::string response() {
    std::size_t end = 0;
    while ((end = held_.find("\r\n\r\n")) == std::string::npos) {
      if (!receive()) return std::exchange(held_, {});
    }
    end += 4;
    std::size_t length = 0;
    const auto at = held_.find("Content-Length: ");
    if (at < end) std::from_chars(held_.data() + at + 16, held_.data() + end, length);
    while (held_.size() < end + length && receive()) {
    }
    std::string one = held_.substr(0, end + length);
    held_.erase(0, end + length);
    return one;
  }
  std::string until(std::string_view text) {
    while (held_.find(text) == std::string::npos && receive()) {
    }
    return held_;
  }
  void end_sending() const { ::shutdown(socket_, SHUT_WR); }
  void leave() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }

 private:
  bool receive() {
    char bytes[4096];
    const auto got = recv(socket_, bytes, sizeof bytes, 0);
    if (got <= 0) return false;
    held_.append(bytes, static_cast<std::size_t>(got));
    return true;
  }

  int socket_ = -1;
  bool connected_ = false;
  std::string held_;
};

std::string body_of_response(const std::string& response) {
  const auto end = response.find("\r\n\r\n");
  return end == std::string::npos ? "" : response.substr(end + 4);
}

class HttpTest : public testing::Test {
 protected:
  HttpTest() {
    router_.add("POST", "/echo/{name}", {}, [](Request request, const Responder& responder) {
      Response response{.headers = {{"X-Name", request.captured["name"]}}};
      response.body.push_back(
          {.bytes = {request.body.data.get(), request.body.size}, .owner = request.body.data});
      responder.send(std::move(response));
    });
    router_.add("GET", "/hello", {}, [](const Request&, const Responder& responder) {
      responder.send(text_response(200, "text/plain", "hello"));
    });
    router_.add(
        "POST", "/gated",
        [](Request&) -> std::optional<Response> { return error_response(401, "who are you"); },
        [](const Request&, const Responder& responder) { responder.send({}); });
    router_.add("GET", "/lost", {}, [](const Request&, const Responder&) {});
    router_.add("GET", "/throws", {},
                [](const Request&, const Responder&) { throw std::runtime_error("no luck"); });
    options_.address = "127.0.0.1:0";
    options_.log = [this](const Served& served) {
      const std::scoped_lock lock(mutex_);
      log_.push_back(served);
      logged_.notify_all();
    };
  }

  void start() {
    auto server = Server::start(options_, router_);
    ASSERT_TRUE(server) << server.error().message();
    server_ = *std::move(server);
  }
  RawClient client() const { return RawClient(server_->address()); }
  std::string ask(std::string_view text) const {
    RawClient asking = client();
    asking.send(text);
    return asking.response();
  }
  bool works() const {
    return body_of_response(ask("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")) == "hello";
  }
  Served logged(std::size_t index) {
    std::unique_lock lock(mutex_);
    logged_.wait(lock, [&] { return log_.size() > index; });
    return log_[index];
  }

  std::mutex mutex_;
  std::condition_variable logged_;
  std::vector<Served> log_;
  Options options_;
  Router router_;
  std::unique_ptr<Server> server_;  // Writes to the log until it is gone.
};

TEST_F(HttpTest, AnswersSeveralRequestsOnOneConnection) {
  start();
  RawClient one = client();
  for (int i = 0; i < 3; ++i) {
    one.send("POST /echo/a%20b%2Fc HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nbytes");
    const auto response = one.response();
    EXPECT_THAT(response, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(response, HasSubstr("X-Name: a b/c\r\n"));
    EXPECT_EQ(body_of_response(response), "bytes");
  }
}

TEST_F(HttpTest, AnswersPipelinedRequestsInTheirOrder) {
  start();
  RawClient one = client();
  std::string all;
  for (int i = 0; i < 50; ++i) {
    const std::string body(static_cast<std::size_t>(i) * 100, static_cast<char>('a' + i % 26));
    all += concat("POST /echo/n", i, " HTTP/1.1\r\nHost: a\r\nContent-Length: ", body.size(),
                  "\r\n\r\n", body);
  }
  std::thread sender([&] { one.send(all); });
  for (int i = 0; i < 50; ++i) {
    const auto response = one.response();
    EXPECT_THAT(response, HasSubstr(concat("X-Name: n", i, "\r\n")));
    EXPECT_EQ(body_of_response(response).size(), static_cast<std::size_t>(i) * 100);
  }
  sender.join();
}

TEST_F(HttpTest, ReadsABodyThatComesInPieces) {
  start();
  RawClient one = client();
  const std::string whole = "POST /echo/x HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabcdef";
  for (const char byte : whole) one.send({&byte, 1});
  EXPECT_EQ(body_of_response(one.response()), "abcdef");
}

TEST_F(HttpTest, ReadsChunkedBodies) {
  start();
  RawClient one = client();
  one.send("POST /echo/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n");
  one.send("4;ext=1\r\ndefg\r\n0\r\n\r\nGET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(body_of_response(one.response()), "abcdefg");
  EXPECT_EQ(body_of_response(one.response()), "hello");
}

TEST_F(HttpTest, InvitesABodyThatWaitsToBeInvited) {
  start();
  RawClient one = client();
  one.send("POST /echo/x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(one.response(), "HTTP/1.1 100 Continue\r\n\r\n");
  one.send("abc");
  EXPECT_EQ(body_of_response(one.response()), "abc");
}

TEST_F(HttpTest, UnpacksBodies) {
  start();
  for (const char* encoding : {"gzip", "deflate"}) {
    Response packed = text_response(200, "", std::string(1000, 'x'));
    pack(packed, encoding);
    const auto& body = packed.body.front().text;
    EXPECT_LT(body.size(), 100U);
    const auto response =
        ask(concat("POST /echo/x HTTP/1.1\r\nHost: a\r\nContent-Encoding: ", encoding,
                   "\r\nContent-Length: ", body.size(), "\r\n\r\n", body));
    EXPECT_EQ(body_of_response(response), std::string(1000, 'x'));
  }
}

TEST_F(HttpTest, RefusesABodyThatUnpacksToTooMuch) {
  options_.limits.body_bytes = 1000;
  start();
  for (const std::size_t size : {1000, 1001, 50'000'000}) {
    Response bomb = text_response(200, "", std::string(size, 'x'));
    pack(bomb, "gzip");
    if (bomb.body.front().text.size() > 1000) bomb.body.front().text.resize(1000);
    const auto& body = bomb.body.front().text;
    const auto response =
        ask(concat("POST /echo/x HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: ",
                   body.size(), "\r\n\r\n", body));
    EXPECT_THAT(response, StartsWith(size == 1000 ? "HTTP/1.1 200" : "HTTP/1.1 413")) << size;
  }
}

TEST_F(HttpTest, TakesTargetsWithTheServersAddress) {
  router_.add("GET", "/", {}, [](const Request& request, const Responder& responder) {
    const auto hosts = std::ranges::count(request.headers, "Host", &Header::name);
    responder.send(text_response(200, "text/plain",
                                 concat(*find_header(request.headers, "host"), " ", hosts, " ",
                                        request.path, " ", request.query)));
  });
  start();
  const auto got = [&](const std::string& line, const std::string& host = "Host: b\r\n") {
    return body_of_response(ask("GET " + line + "\r\n" + host + "\r\n"));
  };
  EXPECT_EQ(got("/?x=1 HTTP/1.1"), "b 1 / x=1");
  EXPECT_EQ(got("http://a:80/?x=1 HTTP/1.1"), "a:80 1 / x=1");
  EXPECT_EQ(got("HTTP://a HTTP/1.1"), "a 1 / ");
  EXPECT_EQ(got("https://[::1]:?x=http://c/ HTTP/1.1"), "[::1]: 1 / x=http://c/");
  EXPECT_EQ(got("http://a/ HTTP/1.0", ""), "a 1 / ");
  EXPECT_EQ(got("http://a/ HTTP/1.0", "Host: b\r\nHost: c\r\n"), "a 1 / ");
  EXPECT_EQ(got("http://a/hello HTTP/1.1"), "hello");
  static_cast<void>(logged(6));
  EXPECT_EQ(std::ranges::count(log_, "http://a/hello", &Served::target), 1);
}

struct Wrong {
  const char* what;
  std::string sent;
  const char* status;
  const char* sentence;
};

TEST_F(HttpTest, RefusesWhatIsNoRequestAndStaysThereForOthers) {
  options_.limits.header_bytes = 2000;
  options_.limits.body_bytes = 1000;
  start();
  const std::string host = "Host: a\r\n";
  const std::string post = "POST /echo/x HTTP/1.1\r\nHost: a\r\n";
  const std::string packed = post + "Content-Encoding: gzip\r\n";
  const std::vector<Wrong> cases = {
      {"noise", "\x16\x03\x01\x02 hello\r\n\r\n", "400", "not a HTTP/1.1 request"},
      {"no version", "GET /hello\r\n\r\n", "400", "not a HTTP/1.1 request"},
      {"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400", ""},
      {"HTTP/0.9", "GET /hello HTTP/0.9\r\n\r\n", "400", ""},
      {"no host", "GET /hello HTTP/1.1\r\n\r\n", "400", "'Host', found 0"},
      {"two hosts", "GET /hello HTTP/1.1\r\n" + host + host + "\r\n", "400", "'Host', found 2"},
      {"two tokens",
       "GET /hello HTTP/1.1\r\n" + host + "Authorization: a\r\nauthorization: b\r\n\r\n", "400",
       "'Authorization', found 2"},
      {"two lengths of JSON",
       post + "Inference-Header-Content-Length: 1\r\nInference-Header-Content-Length: 2\r\n\r\n",
       "400", "'Inference-Header-Content-Length', found 2"},
      {"bare line feeds", "GET /hello HTTP/1.1\nHost: a\n\n", "400", ""},
      {"blank in a name", "GET /hello HTTP/1.1\r\nHost : a\r\n\r\n", "400", ""},
      {"folded header", "GET /hello HTTP/1.1\r\nHost: a\r\nX: a\r\n\tb\r\n\r\nx", "", ""},
      {"NUL in a value", std::string("GET /hello HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", 41),
       "400", ""},
      {"target of another scheme", "GET ftp://a/hello HTTP/1.1\r\n" + host + "\r\n", "400",
       "begins with '/'"},
      {"target of nobody", "GET http:///hello HTTP/1.1\r\n" + host + "\r\n", "400",
       "begins with '/'"},
      {"target of a port alone", "GET http://:80/hello HTTP/1.1\r\n" + host + "\r\n", "400",
       "begins with '/'"},
      {"target with a user", "GET http://b@a/hello HTTP/1.1\r\n" + host + "\r\n", "400",
       "begins with '/'"},
      {"target of no port", "GET http://a:x/hello HTTP/1.1\r\n" + host + "\r\n", "400",
       "begins with '/'"},
      {"target of half an address", "GET http://[::1/hello HTTP/1.1\r\n" + host + "\r\n", "400",
       "begins with '/'"},
      {"absolute target without a host", "GET http://a/hello HTTP/1.1\r\n\r\n", "400",
       "'Host', found 0"},
      {"a port as the target", "CONNECT a:80 HTTP/1.1\r\n" + host + "\r\n", "400",
       "begins with '/'"},
      {"star", "OPTIONS * HTTP/1.1\r\n" + host + "\r\n", "400", "begins with '/'"},
      {"unknown path", "GET /none HTTP/1.1\r\n" + host + "\r\n", "404", "Not Found"},
      {"traversal", "GET /../../etc/passwd HTTP/1.1\r\n" + host + "\r\n", "404", "Not Found"},
      {"bad percent", "GET /a%2 HTTP/1.1\r\n" + host + "\r\n", "400", "hexadecimal"},
      {"worse percent", "GET /a%zz HTTP/1.1\r\n" + host + "\r\n", "400", "hexadecimal"},
      {"signed percent", "GET /a%+1 HTTP/1.1\r\n" + host + "\r\n", "400", "hexadecimal"},
      {"wrong method", "DELETE /hello HTTP/1.1\r\n" + host + "\r\n", "405", "expected GET"},
      {"what may be asked", "DELETE /hello HTTP/1.1\r\n" + host + "\r\n", "405",
       "Allow: GET, HEAD\r\n"},
      {"own method", "HACK /hello HTTP/1.1\r\n" + host + "\r\n", "405", "found HACK"},
      {"long headers", "GET /hello HTTP/1.1\r\nX: " + std::string(3000, 'x') + "\r\n\r\n", "431",
       "longer than 2000"},
      {"long target", "GET /" + std::string(200'000, 'x') + " HTTP/1.1\r\n" + host + "\r\n", "431",
       ""},
      {"endless headers",
       "GET /hello HTTP/1.1\r\n" + std::string(500, 'a') + ": b\r\n" + std::string(5000, 'c'),
       "431", ""},
      {"negative length", post + "Content-Length: -1\r\n\r\n", "400", ""},
      {"length in words", post + "Content-Length: ten\r\n\r\n", "400", ""},
      {"length in hex", post + "Content-Length: 0x10\r\n\r\n", "400", ""},
      {"length beyond 64 bits", post + "Content-Length: 99999999999999999999999\r\n\r\n", "400",
       ""},
      {"2^64 - 1", post + "Content-Length: 18446744073709551615\r\n\r\n", "413",
       "longer than 1000"},
      {"2^63", post + "Content-Length: 9223372036854775808\r\n\r\n", "413", "longer than 1000"},
      {"over the limit", post + "Content-Length: 1001\r\n\r\n" + std::string(1001, 'x'), "413",
       "longer than 1000"},
      {"two lengths", post + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", "400", ""},
      {"a list of lengths", post + "Content-Length: 1, 2\r\n\r\nab", "400", ""},
      {"length and chunks",
       post + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400", ""},
      {"chunks and length",
       post + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", "400", ""},
      {"unknown coding", post + "Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n", "501", "'chunked'"},
      {"chunked not last", post + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", "501", ""},
      {"chunked twice",
       post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", ""},
      {"packed chunks", post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "501", ""},
      {"chunks in 1.0", "POST /echo/x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       "400", "1.0"},
      {"chunk's size is no number", post + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n\r\n", "400",
       "chunked"},
      {"chunk's size is negative", post + "Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n", "400",
       "chunked"},
      {"chunk beyond 64 bits", post + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffffff\r\n",
       "400", ""},
      {"chunk over the limit",
       post + "Transfer-Encoding: chunked\r\n\r\n3e9\r\n" + std::string(1001, 'x') +
           "\r\n0\r\n\r\n",
       "413", "longer than 1000"},
      {"chunk without its end", post + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n0\r\n\r\n",
       "400", ""},
      {"not gzip", packed + "Content-Length: 3\r\n\r\nabc", "400", "not gzip"},
      {"empty gzip", packed + "Content-Length: 0\r\n\r\n", "400", "too early"},
      {"half of gzip", packed + "Content-Length: 4\r\n\r\n\x1f\x8b\x08\x01", "400", "too early"},
      {"unknown packing", post + "Content-Encoding: br\r\nContent-Length: 3\r\n\r\nabc", "501",
       "Unsupported compression type"},
      {"another expectation", post + "Expect: foo\r\nContent-Length: 3\r\n\r\nabc", "417",
       "expected no 'Expect' but '100-continue', found 'foo'"},
      {"another expectation of no body", "GET /hello HTTP/1.1\r\n" + host + "Expect: foo\r\n\r\n",
       "417", "found 'foo'"},
      {"two expectations",
       post + "Expect: 100-continue\r\nExpect: foo\r\nContent-Length: 3\r\n\r\nabc", "417",
       "found 'foo'"},
      {"a list of expectations", post + "Expect: 100-continue, foo\r\nContent-Length: 3\r\n\r\nabc",
       "417", "found '100-continue, foo'"},
      {"no leave", "POST /gated HTTP/1.1\r\n" + host + "Content-Length: 900\r\n\r\n", "401",
       "who are you"},
      {"nobody answers", "GET /lost HTTP/1.1\r\n" + host + "\r\n", "500", "lost the request"},
      {"handler throws", "GET /throws HTTP/1.1\r\n" + host + "\r\n", "500", "no luck"},
  };
  RawClient other = client();
  for (const auto& wrong : cases) {
    const std::string response = ask(wrong.sent);
    EXPECT_THAT(response, StartsWith(concat("HTTP/1.1 ", wrong.status))) << wrong.what;
    EXPECT_THAT(response, HasSubstr(wrong.sentence)) << wrong.what;
    if (response.find(" 200 ") == std::string::npos) {
      EXPECT_THAT(body_of_response(response), StartsWith("{\"error\":\"")) << wrong.what;
    }
    other.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    ASSERT_EQ(body_of_response(other.response()), "hello") << wrong.what;
  }
}

TEST_F(HttpTest, LeavesNothingOfARefusedBodyForTheNextRequest) {
  start();
  RawClient one = client();
  one.send(
      "POST /gated HTTP/1.1\r\nHost: a\r\nContent-Length: 37\r\n\r\n"
      "GET /hello HTTP/1.1\r\nHost: smuggled\r\n\r\n");
  const auto all = one.rest();
  EXPECT_THAT(all, StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(all, Not(HasSubstr("hello")));
}

TEST_F(HttpTest, EndsSlowHeadersAndBodies) {
  options_.limits.header_timeout = kBrief;
  options_.limits.transfer_timeout = kBrief;
  options_.limits.least_bytes_per_second = 1U << 30U;
  start();
  RawClient header = client();
  header.send("GET /hello HTT");
  EXPECT_THAT(header.rest(), StartsWith("HTTP/1.1 408"));
  RawClient body = client();
  body.send("POST /echo/x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab");
  EXPECT_THAT(body.rest(), StartsWith("HTTP/1.1 408"));
  RawClient chunks = client();
  chunks.send("POST /echo/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab");
  EXPECT_THAT(chunks.rest(), StartsWith("HTTP/1.1 408"));
  while (!works()) std::this_thread::yield();  // A client without a CPU is slow, too.
}

TEST_F(HttpTest, ClosesIdleConnections) {
  options_.limits.idle_timeout = kBrief;
  start();
  RawClient never = client();
  EXPECT_EQ(never.rest(), "");
  std::string got;
  while (got.empty()) {  // A client without a CPU is idle, too.
    RawClient once = client();
    once.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    got = once.rest();
  }
  EXPECT_THAT(got, HasSubstr("hello"));
}

TEST_F(HttpTest, EndsWritingToWhoDoesNotRead) {
  options_.limits.transfer_timeout = kBrief;
  options_.limits.least_bytes_per_second = 1U << 30U;
  const auto large = std::make_shared<std::string>(64U << 20U, 'x');
  router_.add("GET", "/large", {}, [large](const Request&, const Responder& responder) {
    Response response;
    response.body.push_back({.bytes = std::as_bytes(std::span(*large)), .owner = large});
    responder.send(std::move(response));
  });
  start();
  RawClient slow = client();
  slow.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(logged(0).status, 499);
  EXPECT_TRUE(works());
}

TEST_F(HttpTest, TurnsAwayConnectionsOverTheLimit) {
  options_.limits.connections = 2;
  start();
  RawClient first = client();
  RawClient second = client();
  for (RawClient* one : {&first, &second}) {
    one->send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_EQ(body_of_response(one->response()), "hello");
  }
  RawClient third = client();
  EXPECT_THAT(third.rest(), StartsWith("HTTP/1.1 503"));
  first.leave();
  while (server_->connections() > 1) std::this_thread::yield();
  EXPECT_TRUE(works());
}

TEST_F(HttpTest, BoundsTheBodiesThatAreHere) {
  options_.limits.bodies_bytes = 1000;
  std::promise<void> there;
  std::vector<Responder> waiting;
  router_.add("POST", "/wait", {}, [&](Request request, const Responder& responder) {
    waiting.push_back(responder);
    request.body = {};
    there.set_value();
  });
  start();
  RawClient half = client();
  half.send(
      "POST /echo/x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 900\r\n\r\n");
  EXPECT_THAT(half.response(), StartsWith("HTTP/1.1 100"));
  const auto refused = ask("POST /echo/x HTTP/1.1\r\nHost: a\r\nContent-Length: 200\r\n\r\n" +
                           std::string(200, 'x'));
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 429"));
  EXPECT_THAT(refused, HasSubstr("Retry-After: 1\r\n"));
  half.send(std::string(900, 'x'));
  EXPECT_THAT(half.response(), StartsWith("HTTP/1.1 200"));
  logged(1);  // Both are over.
  RawClient later = client();
  later.send("POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\n" +
             std::string(900, 'x'));
  there.get_future().wait();
  EXPECT_THAT(ask("POST /echo/x HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\n" +
                  std::string(900, 'x')),
              StartsWith("HTTP/1.1 200"));
  waiting.clear();
  EXPECT_THAT(later.response(), StartsWith("HTTP/1.1 500"));
}

TEST_F(HttpTest, BodiesThatAreCostlyToReadLeaveAThreadForOthers) {
  std::promise<void> go_on;
  const auto released = go_on.get_future().share();
  std::atomic<int> begun = 0;
  router_.add("POST", "/slow", {}, [&](const Request&, const Responder& responder) {
    ++begun;
    begun.notify_all();
    released.wait();
    responder.send(text_response(200, "text/plain", "done"));
  });
  start();
  std::vector<std::unique_ptr<RawClient>> large;
  for (int i = 0; i < 3; ++i) {
    large.push_back(std::make_unique<RawClient>(server_->address()));
    large.back()->send("POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 1100000\r\n\r\n" +
                       std::string(1100000, 'x'));
  }
  begun.wait(0);
  EXPECT_TRUE(works());
  EXPECT_EQ(begun, 1);
  go_on.set_value();
  for (const auto& client : large) EXPECT_EQ(body_of_response(client->response()), "done");
  EXPECT_EQ(begun, 3);
}

TEST_F(HttpTest, TellsTheHandlerThatTheClientHasGone) {
  std::promise<Responder> asked;
  router_.add("GET", "/wait", {},
              [&](const Request&, const Responder& responder) { asked.set_value(responder); });
  start();
  {
    RawClient one = client();
    one.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
    std::promise<void> gone;
    const Responder responder = asked.get_future().get();
    responder.on_gone([&] { gone.set_value(); });
    one.leave();
    gone.get_future().wait();
    std::atomic<bool> at_once = false;
    responder.on_gone([&] { at_once = true; });
    EXPECT_TRUE(at_once);
  }
  EXPECT_EQ(logged(0).status, 499);
}

TEST_F(HttpTest, AnAnswerThatIsThereReachesAClientThatSendsNoMore) {
  const auto large = std::make_shared<std::string>(32U << 20U, 'x');
  router_.add("GET", "/large", {}, [large](const Request&, const Responder& responder) {
    Response response;
    response.body.push_back({.bytes = std::as_bytes(std::span(*large)), .owner = large});
    responder.send(std::move(response));
  });
  start();
  for (int i = 0; i < 50; ++i) {
    RawClient one = client();
    one.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    one.end_sending();
    EXPECT_EQ(body_of_response(one.rest()), "hello");
  }
  RawClient slow = client();
  slow.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(slow.until("\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  slow.end_sending();
  EXPECT_EQ(body_of_response(slow.rest()).size(), large->size());
  EXPECT_EQ(logged(50).status, 200);
}

TEST_F(HttpTest, StreamsUntilItsLastCopyGoes) {
  std::promise<Stream> begun;
  router_.add("GET", "/events", {}, [&](const Request&, const Responder& responder) {
    begun.set_value(responder.stream({.headers = {{"Content-Type", "text/event-stream"}}}));
  });
  start();
  RawClient one = client();
  one.send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n");
  {
    const auto stream = std::make_unique<Stream>(begun.get_future().get());
    EXPECT_TRUE(stream->write("data: 1\n\n"));
    EXPECT_THAT(one.until("data: 1"), HasSubstr("Transfer-Encoding: chunked\r\n"));
    EXPECT_TRUE(stream->write("data: 2\n\n"));
    EXPECT_THAT(one.until("data: 2"), HasSubstr("9\r\ndata: 2\n\n\r\n"));
    EXPECT_FALSE(stream->write(std::string(Stream::kMostWaiting + 1, 'x')));
  }
  EXPECT_THAT(one.until("0\r\n\r\n"), testing::EndsWith("0\r\n\r\n"));
  one.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(one.until("hello"), testing::EndsWith("hello"));
}

TEST_F(HttpTest, AStreamSeesThatItsReaderHasGone) {
  std::promise<Stream> begun;
  router_.add("GET", "/events", {}, [&](const Request&, const Responder& responder) {
    begun.set_value(responder.stream({}));
  });
  start();
  RawClient one = client();
  one.send("GET /events HTTP/1.0\r\n\r\n");
  Stream stream = begun.get_future().get();
  EXPECT_TRUE(stream.write("x"));
  EXPECT_THAT(one.until("\r\n\r\nx"), testing::EndsWith("\r\n\r\nx"));
  one.leave();
  while (stream.write("y")) std::this_thread::yield();
}

TEST_F(HttpTest, AnswersHeadWithoutABody) {
  start();
  RawClient one = client();
  one.send(
      "HEAD /hello HTTP/1.1\r\nHost: a\r\n\r\nGET /hello HTTP/1.1\r\nHost: a\r\n"
      "Connection: close\r\n\r\n");
  const auto all = one.rest();
  EXPECT_THAT(all, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(all, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_EQ(all.find("hello"), all.rfind("hello"));
}

TEST_F(HttpTest, StopLetsRequestsInProgressEndAndTakesNoOthers) {
  std::promise<Responder> asked;
  router_.add("GET", "/wait", {},
              [&](const Request&, const Responder& responder) { asked.set_value(responder); });
  start();
  RawClient idle = client();
  idle.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(body_of_response(idle.response()), "hello");
  RawClient busy = client();
  busy.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
  auto responder = std::make_unique<Responder>(asked.get_future().get());
  auto stopped =
      std::async(std::launch::async, [&] { return server_->stop(std::chrono::hours(1)); });
  EXPECT_EQ(idle.rest(), "");  // Closed: the stop has begun.
  responder->send(text_response(200, "text/plain", "late"));
  responder.reset();
  const auto response = busy.rest();
  EXPECT_THAT(response, HasSubstr("Connection: close\r\n"));
  EXPECT_EQ(body_of_response(response), "late");
  busy.leave();
  EXPECT_TRUE(stopped.get());
}

TEST_F(HttpTest, StopCutsOffWhatDoesNotEnd) {
  std::promise<Responder> asked;
  router_.add("GET", "/wait", {},
              [&](const Request&, const Responder& responder) { asked.set_value(responder); });
  start();
  RawClient busy = client();
  busy.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
  const Responder responder = asked.get_future().get();
  std::atomic<bool> gone = false;
  responder.on_gone([&] { gone = true; });
  EXPECT_FALSE(server_->stop(std::chrono::nanoseconds(0)));
  EXPECT_TRUE(gone);
  EXPECT_EQ(busy.rest(), "");
  server_.reset();
  responder.send({});  // Nobody is there, and nothing happens.
}

TEST_F(HttpTest, SaysWhyItCannotListen) {
  start();
  auto options = options_;
  options.address = server_->address();
  const auto second = Server::start(options, {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kUnavailable);
  EXPECT_THAT(second.error().reason, HasSubstr("cannot listen on '127.0.0.1:"));
  for (const char* bad : {"", "host", "host:", "host:x", "host:70000", ":1", "host:-1"}) {
    options.address = bad;
    EXPECT_EQ(Server::start(options, {}).error().code, Code::kInvalidArgument) << bad;
  }
}

TEST_F(HttpTest, SaysThatAThreadIsRefused) {
  const auto refused = [&] {
    const NoMoreThreads none;
    return Server::start(options_, {});
  }();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_THAT(refused.error().message(), StartsWith("no thread could be started"));
}

TEST_F(HttpTest, ANameIsListenedOnAtAllItsAddresses) {
  namespace ip = boost::asio::ip;
  boost::asio::io_context context;
  const auto found =
      ip::tcp::resolver(context).resolve("localhost", "0", ip::tcp::resolver::passive);
  options_.address = "localhost:0";
  start();
  const std::string& address = server_->address();
  const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  for (const auto& entry : found) {
    auto endpoint = entry.endpoint();
    endpoint.port(0);
    boost::system::error_code absent;
    ip::tcp::acceptor here(context, endpoint.protocol());
    here.bind(endpoint, absent);
    if (absent) continue;  // The machine has no IPv6.
    endpoint.port(port);
    boost::system::error_code refused;
    ip::tcp::socket(context).connect(endpoint, refused);
    EXPECT_FALSE(refused) << endpoint << ": " << refused.message();
  }
}

TEST_F(HttpTest, HundredsOfIdleConnectionsDisturbNobody) {
  start();
  std::vector<std::unique_ptr<RawClient>> idle;
  for (int i = 0; i < 400;
       ++i) {  // As many as the usual bound on descriptors lets one process have.
    idle.push_back(std::make_unique<RawClient>(server_->address()));
    ASSERT_TRUE(idle.back()->connected());
  }
  EXPECT_TRUE(works());
  for (auto& one : idle) one->send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
  for (auto& one : idle) EXPECT_EQ(body_of_response(one->response()), "hello");
}

/// "", or the sentence with which it is refused.
std::string refused_page(const std::string& method, std::vector<Header> headers, bool at_home) {
  Request request;
  request.method = method;
  request.headers = std::move(headers);
  const auto refused = refuse_page(request, at_home);
  if (!refused) return "";
  EXPECT_EQ(refused->status, 403);
  return refused->notes.at("error");
}

TEST(PageTest, WhatIsAskedOfAnotherNameIsRefusedAtHome) {
  for (const std::string host :
       {"127.0.0.1:80", "127.0.0.1", "localhost:8000", "Localhost", "[::1]:80"}) {
    EXPECT_EQ(refused_page("GET", {{"Host", host}}, true), "") << host;
  }
  EXPECT_EQ(refused_page("GET", {}, true), "");
  for (const std::string host :
       {"evil.example:80", "127.0.0.1.evil.example", "unix:80", "10.0.0.1"}) {
    EXPECT_THAT(refused_page("GET", {{"host", host}}, true),
                HasSubstr("found one for '" + host + "'"));
    EXPECT_EQ(refused_page("POST", {{"host", host}}, false), "") << host;
  }
}

TEST(PageTest, PagesOfOthersChangeNothing) {
  const auto of_page = [](const std::string& origin, const std::string& host,
                          bool at_home = false) {
    const std::vector<Header> headers = {{"Host", host}, {"Origin", origin}};
    EXPECT_EQ(refused_page("GET", headers, at_home), "");
    return refused_page("POST", headers, at_home);
  };
  EXPECT_EQ(of_page("http://127.0.0.1:8000", "127.0.0.1:8000", true), "");
  EXPECT_EQ(of_page("http://localhost", "LOCALHOST", true), "");
  EXPECT_EQ(of_page("https://[2001:db8::1]:8000", "[2001:db8::1]:8000"), "");
  EXPECT_EQ(of_page("http://10.0.0.1:8000", "10.0.0.1:8000"), "");
  for (const std::string origin : {"http://evil.example", "null", "http://localhost:1",
                                   "localhost:8000", "ftp://localhost:8000"}) {
    EXPECT_THAT(of_page(origin, "localhost:8000", true),
                HasSubstr("of a page of '" + origin + "'"));
  }
  // Its own name, or one that was made to lead here.
  EXPECT_NE(of_page("http://evil.example:8000", "evil.example:8000"), "");
}

}  // namespace
}  // namespace penstock::http
