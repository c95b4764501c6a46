// Watching: a running pipeline behind a port, for those who look on.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "penstock/base/result.h"
#include "penstock/pipeline/pipeline.h"

namespace penstock::gateway {

struct WatchOptions {
  std::string address = "127.0.0.1:0";  ///< HOST:PORT; port 0: any; empty: only `record`.
  bool page = false;                    ///< Serve the page, too, and what it listens to.
  /// build.json of what runs, for its drawing; empty: stages are drawn. That of a plan which takes
  /// its place later is read from its package.
  std::string report;
  /// Where the page goes at the end, as a file that stands alone; empty: nowhere. Until then it is
  /// FILE.part, which is made at the start. Devices, pipes and what links lead to are written in
  /// place.
  std::filesystem::path record;
  bool insecure = false;         ///< Plain text also where other machines could read it.
  std::filesystem::path tokens;  ///< Who may look, with the right `admin`; empty: who is here.
  std::function<void(const std::string&)> warn;  ///< What the operator should know; any thread.
};

/// \threads  all functions may be called from any thread.
class Watching {
 public:
  /// As stop(), without its result.
  virtual ~Watching() = default;

  [[nodiscard]] virtual const std::string& address() const = 0;  ///< With the port chosen.
  /// Tells those who look that it is over, and closes the port. The pipeline goes on. Idempotent.
  /// \error kNotFound, kPermissionDenied, kResourceExhausted  the recording cannot be written.
  virtual Status stop() = 0;
};

/// Serves `/metrics`, in Prometheus' text format, until what is returned is stopped or destroyed,
/// also after the pipeline's end. With `page`, `/` is the page of the running pipeline, which a
/// thread looks at twice a second, `/events` what it listens to, `/snapshot` the same for programs
/// (docs/observing.md). The library that has the ports is loaded by the first call of a process,
/// and stays.
/// \error kUnavailable       the address cannot be listened on; the library cannot be loaded.
/// \error kInvalidArgument   the address is none; a line of the tokens is bad.
/// \error kResourceExhausted  the system has no thread left.
/// \error kPermissionDenied  plain text would leave this machine without `insecure`; the recording
///                           cannot be written.
/// \error kNotFound          its folder is not there.
Result<std::unique_ptr<Watching>> start_watching(std::shared_ptr<const pipeline::Pipeline> pipeline,
                                                 const WatchOptions& options);

}  // namespace penstock::gateway
