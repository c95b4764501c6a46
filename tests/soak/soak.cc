// Frames by the million through a pipeline in trouble: whether anything that it holds grows.
//
//   soak TROUBLE FRAMES [--seed N] [--leak BYTES]
//
// Two stages on scalars, y = 2 (x + 1), and one thread each that pushes and that pops. TROUBLE is
// one of
//   errors    every seventh frame fails in a stage
//   cancel    about every eighth frame is cancelled while it is on its way
//   narrow    each edge has one slot
//   slow      who pops sleeps for a millisecond after each 500 frames
//   swaps     another plan takes over after each 5,000 frames
//   page      the live page is open, and a client reads all that it sends
// Every frame has to come out once, in order, with its value or with the end that it was given.
// Memory, descriptors and threads are sampled 40 times; none may be larger in the last quarter than
// it was in the first but for 4 MiB of memory. (Under a sanitizer memory is not judged: freed
// blocks are kept.) Printed is one line of columns, kTitles. Ends with 1 where something was wrong,
// and says what.
//
// --leak keeps as many bytes of each frame, on purpose: a test of the judge.
#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "penstock/gateway/watching.h"
#include "tests/support/fake_backend.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PENSTOCK_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PENSTOCK_SANITIZED 1
#endif
#endif

namespace penstock {
namespace {

namespace fs = std::filesystem;
using namespace penstock::testing;  // NOLINT(google-build-using-namespace): test support
using pipeline::Outcome;
using pipeline::Pipeline;

constexpr const char* kTroubles = "errors, cancel, narrow, slow, swaps, page";
constexpr const char* kTitles =
    "trouble frames ok failed cancelled swaps seconds kB_first kB_last files_first files_last "
    "threads_first threads_last";
constexpr std::uint64_t kValues = 1024;  // Different inputs, which are made once.
constexpr std::uint64_t kSamples = 40;
constexpr std::uint64_t kBetweenSwaps = 5000, kBetweenSleeps = 500;
constexpr long kSlackKilobytes = 4096;

struct Arguments {
  std::string trouble;
  std::uint64_t frames = 0, seed = 1, leak = 0;
};

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "soak: %s\n", why.c_str());
  std::exit(1);
}

/// What the process holds.
struct Held {
  long kilobytes = 0, files = 0, threads = 0;

  static Held now() {
    long pages = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> pages >> resident;
    const auto count = [](const char* folder) {
      return static_cast<long>(
          std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
    };
    return {resident * (sysconf(_SC_PAGESIZE) / 1024), count("/proc/self/fd"),
            count("/proc/self/task")};
  }
};

/// The most of the first quarter, and the least of the last: what grows has the second larger. The
/// very last sample is left out, as stages may have ended by then.
std::pair<long, long> ends_of(const std::vector<Held>& samples, long Held::* what) {
  const auto quarter = static_cast<std::ptrdiff_t>(samples.size() / 4);
  const auto less = [what](const Held& a, const Held& b) { return a.*what < b.*what; };
  return {(*std::max_element(samples.begin(), samples.begin() + quarter, less)).*what,
          (*std::min_element(samples.end() - quarter, samples.end() - 1, less)).*what};
}

/// Fails for values that leave 3 over 7, if it is to.
Function adding(bool fails) {
  return [fails](Inputs in, Outputs out) -> Status {
    const float x = value_of(*in[0]);
    if (fails && static_cast<int>(x) % 7 == 3) return invalid_argument(x, " is one of seven");
    out[0]->as<float>()[0] = x + 1;
    return {};
  };
}

FakeNetwork network(bool fails) {
  FakeNetwork made;
  made.input("in")
      .stage("add", {"in"}, {"mid"}, adding(fails))
      .stage("double", {"mid"}, {"out"}, unary([](float x) { return 2 * x; }))
      .output("out");
  return made;
}

/// Reads what the live page sends, as a browser does that stays.
class Browser {
 public:
  explicit Browser(const std::string& address) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const auto colon = address.rfind(':');
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1))));
    inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) {
      fail("the page cannot be reached at " + address);
    }
    const std::string asked = "GET /events HTTP/1.1\r\nHost: " + address + "\r\n\r\n";
    if (::send(socket_, asked.data(), asked.size(), 0) < 0) fail("the page takes no request");
    reader_ = std::thread([this] {
      std::array<char, 1 << 16> buffer{};
      for (ssize_t got = 1; got > 0; got = ::recv(socket_, buffer.data(), buffer.size(), 0)) {
        bytes_ += got;
      }
    });
  }
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;
  ~Browser() {
    ::shutdown(socket_, SHUT_RDWR);
    reader_.join();
    ::close(socket_);
  }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  int socket_;
  std::atomic<std::int64_t> bytes_{0};
  std::thread reader_;
};

class Soak {
 public:
  explicit Soak(Arguments arguments) : given_(std::move(arguments)) {
    for (std::uint64_t value = 0; value < kValues; ++value) {
      inputs_.push_back({number(static_cast<float>(value))});
    }
  }

  void run() {
    std::array networks = {network(fails()), network(fails())};
    plan::StreamOptions stream;
    if (is("narrow")) stream.capacity = 1;
    auto started = networks[0].start(stream);
    if (!started) fail(started.error().message());
    pipeline_ = *std::move(started);
    open_page();
    const auto begin = std::chrono::steady_clock::now();
    std::thread pusher([this] { push_all(); });
    std::thread swapper([this, &networks] { swap_all(networks); });
    pop_all();
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    pusher.join();
    swapper.join();
    if (browser_ && browser_->bytes() == 0) fail("the page sent nothing");
    browser_.reset();
    watching_.reset();
  }

  [[nodiscard]] bool judge() const {
    const auto memory = ends_of(samples_, &Held::kilobytes),
               files = ends_of(samples_, &Held::files);
    const auto threads = ends_of(samples_, &Held::threads);
    std::printf("%s %llu %llu %llu %llu %llu %.1f %ld %ld %ld %ld %ld %ld\n",
                given_.trouble.c_str(), as_printed(popped_), as_printed(ok_), as_printed(failed_),
                as_printed(cancelled_), as_printed(swaps_), seconds_, memory.first, memory.second,
                files.first, files.second, threads.first, threads.second);
#ifdef PENSTOCK_SANITIZED
    const bool memory_flat = true;
#else
    const bool memory_flat = memory.second <= memory.first + kSlackKilobytes;
#endif
    const auto tell = [](bool flat, const char* what) {
      if (!flat) std::fprintf(stderr, "soak: %s grew\n", what);
      return flat;
    };
    const bool all = tell(memory_flat, "memory");
    const bool both = tell(files.second <= files.first, "the number of descriptors");
    return tell(threads.second <= threads.first, "the number of threads") && all && both;
  }

 private:
  static unsigned long long as_printed(std::uint64_t count) { return count; }
  [[nodiscard]] bool is(const char* trouble) const { return given_.trouble == trouble; }
  [[nodiscard]] bool fails() const { return is("errors"); }

  void open_page() {
    if (!is("page")) return;
    auto watching = gateway::start_watching(pipeline_, {.page = true});
    if (!watching) fail(watching.error().message());
    watching_ = *std::move(watching);
    browser_ = std::make_unique<Browser>(watching_->address());
  }

  void push_all() {
    std::mt19937_64 random(given_.seed);
    for (std::uint64_t i = 0; i < given_.frames; ++i) {
      const auto pushed = pipeline_->push(inputs_[i % kValues], pipeline::kForever);
      if (!pushed) fail(pushed.error().message());
      if (*pushed != i) fail(concat("frame ", i, " was given the number ", *pushed));
      if (is("cancel") && random() % 8 == 0 && pipeline_->cancel(*pushed)) ++asked_;
    }
    pipeline_->close();
  }

  void swap_all(std::array<FakeNetwork, 2>& networks) {
    while (is("swaps") && popped_ < given_.frames) {
      const auto next = (swaps_ + 1) * kBetweenSwaps;
      if (popped_ < next) {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        continue;
      }
      auto& other = networks[(swaps_ + 1) % 2];
      const auto done = pipeline_->replace(other.finish(), other.folder, other.registry);
      if (!done && done.error().code == Code::kCancelled) return;  // All is pushed.
      if (!done) fail(done.error().message());
      ++swaps_;
    }
  }

  void pop_all() {
    const auto between = std::max<std::uint64_t>(given_.frames / kSamples, 1);
    while (true) {
      const auto output = pipeline_->pop(pipeline::kForever);
      if (!output) fail(output.error().message());
      if (!*output) break;
      check(**output);
      if (++popped_ % between == 0) samples_.push_back(Held::now());
      if (is("slow") && popped_ % kBetweenSleeps == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      if (given_.leak > 0) kept_.emplace_back(given_.leak, 'x');
    }
    if (popped_ != given_.frames)
      fail(concat(given_.frames, " pushed, ", popped_.load(), " came out"));
    if (asked_ != cancelled_)
      fail(concat(asked_.load(), " cancelled, ", cancelled_, " came out so"));
  }

  void check(const pipeline::Output& output) {
    if (output.number() != popped_) fail(concat(output.number(), " came after ", popped_.load()));
    const auto value = popped_ % kValues;
    if (output.outcome() == Outcome::kCancelled && is("cancel")) {
      ++cancelled_;
    } else if (fails() && value % 7 == 3) {
      if (output.outcome() != Outcome::kError)
        fail(concat("frame ", output.number(), " did not fail"));
      ++failed_;
    } else if (!output.ok()) {
      fail(output.error().message());
    } else if (value_of(output[0]) != static_cast<float>(2 * (value + 1))) {
      fail(concat("frame ", output.number(), ": expected ", 2 * (value + 1), ", found ",
                  value_of(output[0])));
    } else {
      ++ok_;
    }
  }

  Arguments given_;
  std::vector<std::vector<Tensor>> inputs_;
  std::shared_ptr<Pipeline> pipeline_;
  std::unique_ptr<gateway::Watching> watching_;
  std::unique_ptr<Browser> browser_;
  std::vector<Held> samples_;
  std::vector<std::string> kept_;  // By --leak.
  std::atomic<std::uint64_t> popped_{0}, asked_{0};
  std::uint64_t ok_ = 0, failed_ = 0, cancelled_ = 0, swaps_ = 0;
  double seconds_ = 0;
};

std::uint64_t number_in(const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    fail("expected a number, found " + text);
  return number;
}

Arguments parse(const std::vector<std::string>& words) {
  if (words.size() < 2 || words.size() % 2 != 0 ||
      concat(kTroubles, ",").find(words[0] + ",") == std::string::npos) {
    fail(concat("expected soak TROUBLE FRAMES [--seed N] [--leak BYTES], TROUBLE one of ",
                kTroubles));
  }
  Arguments arguments{words[0], number_in(words[1])};
  if (arguments.frames < kSamples) fail(concat("expected at least ", kSamples, " frames"));
  for (std::size_t i = 2; i < words.size(); i += 2) {
    if (words[i] != "--seed" && words[i] != "--leak") fail("unknown option " + words[i]);
    (words[i] == "--seed" ? arguments.seed : arguments.leak) = number_in(words[i + 1]);
  }
  return arguments;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--titles") {
    std::puts(penstock::kTitles);
    return 0;
  }
  penstock::Soak soak(penstock::parse({argv + 1, argv + argc}));
  soak.run();
  return soak.judge() ? 0 : 1;
}
