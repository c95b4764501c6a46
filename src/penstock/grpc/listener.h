// Listener: accepts connections for gRPC.
// gRPC's own accepting knows no bound, and ends for ever once no descriptor is left.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <sys/types.h>

#include "penstock/base/result.h"

namespace penstock::grpc {

/// Closes the file at the end.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  [[nodiscard]] int get() const { return number_; }
  /// Somebody else closes it.
  int release();

 private:
  int number_;
};

class Listener {
 public:
  /// Gets each connection's descriptor, which it owns then.
  using Take = std::function<void(int descriptor)>;

  /// Binds "HOST:PORT", "[HOST]:PORT" or "unix:PATH"; port 0: any that is free. Of a name with
  /// several addresses of this machine, all of them.
  /// \error kUnavailable  the address cannot be listened on; another process has it, or one of
  ///                      the name's addresses.
  static Result<std::unique_ptr<Listener>> bind(const std::string& address);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// Where it listens, with the port that was chosen.
  [[nodiscard]] const std::string& address() const { return address_; }

  /// Takes connections from now on, by a thread of its own; while `most` are open others are
  /// closed at once. \error kResourceExhausted  no thread, or no descriptor.
  Status start(std::size_t most, Take take);
  /// Takes none any more, and removes the socket's file that it has made. Idempotent.
  void stop();

 private:
  Listener() = default;
  Status open(const std::string& host, const std::string& port);
  Status open_unix(const std::string& path);
  void loop();
  void accept_all(int listening);
  void take_in(Descriptor connection);
  bool has_room();
  void remove_file();

  std::string address_;
  std::filesystem::path file_;  // Of the socket; empty: it has none.
  ino_t inode_ = 0;             // Of the file.
  std::vector<Descriptor> listening_;
  Descriptor wake_{-1};
  std::size_t most_ = 0;
  Take take_;
  std::thread thread_;

  // Of the thread.
  std::unordered_map<int, ino_t> open_;  // By descriptor: which socket it was.
  std::chrono::steady_clock::time_point counted_;
  bool starved_ = false;  // The system had no descriptor for one that waits.
};

}  // namespace penstock::grpc
