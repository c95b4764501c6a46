// How another machine is reached, and by what we are known there.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "penstock/base/result.h"

namespace penstock::grpc {

/// How requests go to a server of others.
enum class Calls : std::uint8_t {
  kEither,  ///< In a stream where the server answers requests there one by one, else as unary
            ///< calls.
  kStream,
  kUnary,
};

/// Files are read again for each new connection.
struct PeerOptions {
  std::string address;          ///< HOST:PORT
  bool tls = false;             ///< Encrypted; so it is where one of the three below is given.
  std::filesystem::path roots;  ///< PEM: whose certificates are believed. Empty: the system's.
  std::filesystem::path certificate;  ///< PEM: our own, with `key`, for servers that ask for it.
  std::filesystem::path key;
  std::filesystem::path token;  ///< Its first line goes with each call as a bearer token.
  /// Within which a peer that is dead, hangs or cannot be reached is noticed.
  std::chrono::nanoseconds patience = std::chrono::seconds(1);
  Calls calls = Calls::kEither;

  [[nodiscard]] bool encrypted() const {
    return tls || !roots.empty() || !certificate.empty() || !key.empty();
  }
};

/// Takes what it knows out of `options`: "tls" (true, false), "root_file", "certificate_file",
/// "key_file", "token_file", "patience_ms", "calls" (either, stream, unary). What is not there is
/// taken from the environment: PENSTOCK_REMOTE_ROOT_FILE and so on.
/// \error kInvalidArgument  a value makes no sense; a certificate without a key; a token in plain
///                          text to another machine.
Result<PeerOptions> read_peer_options(std::string address,
                                      std::map<std::string, std::string>& options);

}  // namespace penstock::grpc
