// Serving: models behind their ports, with all that a server is started with.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/base/tls_files.h"
#include "penstock/host/options.h"
#include "penstock/serve/server_options.h"

namespace penstock::gateway {

struct Options {
  std::vector<std::string> models;  ///< `[NAME[:VERSION]=]PATH`, besides `server.models`.
  std::vector<serve::NamedSettings> settings;  ///< Of `models` and `server.models`.
  serve::Server::Options server;        ///< Models, limits, patience; `warn` tells of all parts.
  std::string grpc = "127.0.0.1:8001";  ///< HOST:PORT, port 0: any that is free; or unix:PATH.
  std::string http;                     ///< HOST:PORT; empty: not over HTTP.
  TlsFiles tls;                         ///< Of both. Without a key: plain text.
  bool insecure = false;                ///< Plain text also where other machines could read it.
  std::filesystem::path tokens;         ///< Who may do what; empty: nobody is asked.
  std::string access_log;               ///< A file, "-": the standard output; empty: none.
  /// Given: a worker, which takes stages of callers of other machines, too.
  std::optional<host::Options> worker;
  /// Of a worker: whose certificates other workers show (PEM); empty: those of its own clients.
  std::filesystem::path peer_authority;
  std::filesystem::path peer_token;  ///< Of a worker: its first line is shown to other workers.
};

/// \threads  all functions may be called from any thread, stop() from one at a time.
class Serving {
 public:
  /// Requests in progress end as cancelled, unless stop() was called.
  virtual ~Serving() = default;

  [[nodiscard]] virtual const std::string& grpc_address() const = 0;  ///< With the port chosen.
  [[nodiscard]] virtual const std::string& http_address() const = 0;  ///< Empty: there is none.
  /// "NAME version VERSION" of each model that is ready.
  [[nodiscard]] virtual std::vector<std::string> models() const = 0;
  /// Folder of a worker's contents; empty: it is no worker.
  [[nodiscard]] virtual std::filesystem::path contents() const = 0;
  /// Reads each model again, while requests go on, as serve::Server::reload().
  virtual serve::Reloaded reload() = 0;
  /// What the last requests and frames did when, as serve::Server::write_trace().
  virtual Result<std::uint64_t> write_trace(const std::filesystem::path& file) const = 0;

  /// Not ready any more; takes no new requests, ends those in progress, closes the ports.
  /// \returns false where some had to be cancelled after `patience`. Idempotent.
  virtual bool stop() = 0;
};

/// Loads the models, then opens the ports: requests are answered from now on. The library that
/// speaks gRPC is loaded by the first call of a process, and stays.
/// \error kUnavailable       an address cannot be listened on; the library cannot be loaded.
/// \error kPermissionDenied  plain text would leave this machine without `insecure`; the log.
/// \error kInvalidArgument   two models of one name and version; a file of `tls` without another.
/// \error kAlreadyExists     another worker has the folder of contents.
/// \error kCancelled         `server.stopped` said so. And those of a model that cannot be loaded.
Result<std::unique_ptr<Serving>> start_serving(const Options& options,
                                               const backend::Registry& backends);

}  // namespace penstock::gateway
