// Reads a peer's options, with defaults from the environment; opens a channel with TLS and a token.
#include "penstock/grpc/client/peer.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <fstream>

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include "penstock/device/address.h"
#include "penstock/grpc/client/worker_messages.h"

namespace penstock::grpc {
namespace {

/// For as long as this many a single connection may stand still while its peer gives signs of life
/// on another: a link that loses packets must not break it.
constexpr int kPatiences = 3;
constexpr std::size_t kMostBytes = std::size_t{1} << 20;  // Of a file of keys.
/// Of a call's end, with what its server says of an error: where there is more, gRPC fails other
/// calls of the connection too. Servers that send a trace of their stack pass its usual 8 kB.
constexpr int kMostMetadata = 1 << 20;
constexpr std::size_t kShown = 1000;  // Of a long sentence, at either end.

/// What is said of the key here, or else in the environment.
std::string take(std::map<std::string, std::string>& options, const std::string& key) {
  if (auto given = options.extract(key)) return given.mapped();
  std::string variable = "PENSTOCK_REMOTE_" + key;
  std::ranges::transform(variable, variable.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const char* found = std::getenv(variable.c_str());
  return found == nullptr ? "" : found;
}

Result<bool> read_flag(const std::string& text) {
  if (text.empty() || text == "false") return false;
  if (text == "true") return true;
  return invalid_argument("option 'tls': expected true or false, found '", text, "'");
}

Result<std::chrono::nanoseconds> read_patience(const std::string& text) {
  if (text.empty()) return PeerOptions().patience;
  constexpr int kLeast = 50, kMost = 3'600'000;
  int ms = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ms);
  if (error != std::errc() || end != text.data() + text.size() || ms < kLeast || ms > kMost) {
    return invalid_argument("option 'patience_ms': expected from ", kLeast, " to ", kMost,
                            " milliseconds, found '", text, "'");
  }
  return std::chrono::nanoseconds(std::chrono::milliseconds(ms));
}

Result<Calls> read_calls(const std::string& text) {
  if (text.empty() || text == "either") return Calls::kEither;
  if (text == "stream") return Calls::kStream;
  if (text == "unary") return Calls::kUnary;
  return invalid_argument("option 'calls': expected either, stream or unary, found '", text, "'");
}

Result<std::string> read_if_given(const std::filesystem::path& file) {
  if (file.empty()) return std::string();
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return not_found("cannot be read").within({Where::kFile, file.string()});
  std::string text(kMostBytes, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text;
}

/// `label`: how the line that begins it ends. Of files without one gRPC tells nothing.
Result<std::string> read_pem_if_given(const std::filesystem::path& file, const char* label) {
  PENSTOCK_TRY(auto text, read_if_given(file));
  if (file.empty() || text.find(label) != std::string::npos) return text;
  return invalid_argument("it has no line '-----BEGIN ...", label, "' of PEM text")
      .within({Where::kFile, file.string()});
}

int to_ms(std::chrono::nanoseconds time) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  return static_cast<int>(std::min<std::int64_t>(ms, INT_MAX));
}

Result<std::shared_ptr<::grpc::ChannelCredentials>> credentials_of(const PeerOptions& options) {
  if (!options.encrypted()) return ::grpc::InsecureChannelCredentials();
  constexpr const char* kCertificate = "CERTIFICATE-----";
  ::grpc::SslCredentialsOptions tls;
  PENSTOCK_TRY(tls.pem_root_certs, read_pem_if_given(options.roots, kCertificate));
  PENSTOCK_TRY(tls.pem_cert_chain, read_pem_if_given(options.certificate, kCertificate));
  PENSTOCK_TRY(tls.pem_private_key, read_pem_if_given(options.key, "PRIVATE KEY-----"));
  return ::grpc::SslCredentials(tls);
}

/// At or behind `at`: where a character of UTF-8 begins, which has four bytes at most.
std::size_t next_character(const std::string& text, std::size_t at) {
  const auto end = std::min(text.size(), at + 3);
  while (at < end && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) ++at;
  return at;
}

/// What gRPC says of a connection that was never made, and what is meant.
struct Unreachable {
  const char* said;
  const char* meant;
};
constexpr Unreachable kUnreachable[] = {
    {"Socket closed",
     "it closed the connection at once: it may want TLS (option 'tls' or 'root_file' of backend "
     "'remote', or PENSTOCK_REMOTE_ROOT_FILE), or a certificate of ours ('certificate_file')"},
    {"wrong version number",
     "it answered TLS in plain text: start it with --tls-certificate and --tls-key, or leave out "
     "'tls', 'root_file' and 'certificate_file' of backend 'remote' (PENSTOCK_REMOTE_...)"},
    {"certificate verify failed",
     "its certificate is of nobody who is believed here: name its authority by option 'root_file' "
     "of backend 'remote' (PENSTOCK_REMOTE_ROOT_FILE)"},
    {"is not in peer certificate",
     "its certificate is not for this address: reach it by a name that the certificate has"},
    {"empty address list",
     "our files of TLS cannot be used: expected certificates in 'root_file', and in 'key_file' the "
     "key of 'certificate_file' (options of backend 'remote')"},
    {"http1.x server", "it speaks HTTP/1 there: give the port on which it speaks gRPC"},
    {"Connection refused",
     "nobody listens there: start it, or mend the address (connection refused)"},
    {"No such file or directory",
     "nobody listens there: start it, or mend the path (no such socket's file)"},
    {"Not a directory", "its path goes on behind a file: give the path of the socket's file alone"},
    {"DNS resolution failed", "its name has no address: mend it, or give the address itself"},
};

}  // namespace

std::string explain_unreachable(const std::string& said) {
  const bool connected = said.find("failed to connect to all addresses") == std::string::npos &&
                         said.find("DNS resolution failed") == std::string::npos &&
                         said.find("empty address list") == std::string::npos;
  if (connected) return said;
  for (const auto& [words, meant] : kUnreachable) {
    if (said.find(words) != std::string::npos) return meant;
  }
  return said;
}

Result<PeerOptions> read_peer_options(std::string address,
                                      std::map<std::string, std::string>& options) {
  PeerOptions read;
  read.address = std::move(address);
  PENSTOCK_TRY(read.tls, read_flag(take(options, "tls")));
  read.roots = take(options, "root_file");
  read.certificate = take(options, "certificate_file");
  read.key = take(options, "key_file");
  read.token = take(options, "token_file");
  PENSTOCK_TRY(read.patience, read_patience(take(options, "patience_ms")));
  PENSTOCK_TRY(read.calls, read_calls(take(options, "calls")));
  if (read.certificate.empty() != read.key.empty()) {
    return invalid_argument(
        "options 'certificate_file' and 'key_file': expected both or neither, found ",
        read.key.empty() ? "only the certificate" : "only the key");
  }
  if (!read.token.empty() && !read.encrypted() && !device::is_loopback(read.address)) {
    return invalid_argument("option 'token_file': '", read.address,
                            "' is another machine, and whoever is between could read the token: "
                            "give 'tls' or 'root_file' too");
  }
  return read;
}

Result<Connection> Connection::open(const PeerOptions& options) {
  Connection made;
  PENSTOCK_TRY(const auto credentials, credentials_of(options));
  PENSTOCK_TRY(const auto token, read_if_given(options.token));
  if (!token.empty())
    made.authorization_ = "Bearer " + token.substr(0, token.find_first_of("\r\n"));
  ::grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMostMetadata);
  // A connection of its own: after a peer is lost, another one must not be the same that hangs.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // The kernel ends a connection on which what was sent is not received for so long. It is set
  // beside gRPC's own pings, which are put off: their answers would wait behind large messages.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, INT_MAX - 1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, to_ms(options.patience * kPatiences));
  made.channel_ = ::grpc::CreateCustomChannel(options.address, credentials, arguments);
  return made;
}

bool Connection::broken() const {
  return channel_->GetState(false) != GRPC_CHANNEL_READY;
}

std::string shortened(const std::string& said) {
  if (said.size() <= 2 * kShown) return said;
  const auto from = next_character(said, kShown);
  const auto to = next_character(said, said.size() - kShown);
  return concat(said.substr(0, from), " [... ", to - from, " bytes more ...] ", said.substr(to));
}

Error to_error(const ::grpc::Status& status, const std::string& address) {
  Error told = read_status(status);
  told.reason = shortened(told.reason);
  if (told.code == Code::kUnavailable) told.reason = explain_unreachable(told.reason);
  if (told.reason.empty()) {
    told.reason = told.code == Code::kUnimplemented
                      ? "it does not serve what is asked of it"
                      : concat("it gives no reason (gRPC's code ", status.error_code(), ")");
  }
  return std::move(told).within({Where::kPeer, address});
}

bool says_why(const Error& failed_try) {
  return failed_try.code != Code::kDeadlineExceeded && failed_try.code != Code::kCancelled;
}

}  // namespace penstock::grpc
