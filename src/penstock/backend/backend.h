// What a toolchain implements to run subgraphs. A plugin is a shared library with one such class.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/device/device.h"
#include "penstock/tensor/tensor.h"

namespace penstock::backend {

/// Changes whenever anything in this header (or in what it includes) changes its layout or meaning.
inline constexpr int kAbiVersion = 10;

/// One input or output of a compiled model.
struct Port {
  std::string name;  ///< The tensor's name in the model.
  Type type;
};

enum class Precision { kF32, kBF16, kF16, kI8 };

/// The option by which a stage asks for one: "bf16". See backend::with_precision().
inline constexpr const char* kPrecisionOption = "precision";

/// What to compile, for where. A plain ONNX model is the one form that every toolchain reads.
struct CompileRequest {
  std::string name;            ///< For messages: "stage 'head'".
  std::filesystem::path file;  ///< The model, external data beside it; or empty and
  std::string bytes;           ///< the serialised onnx.ModelProto.
  device::Device device;
  int threads = 1;               ///< Including the calling one. 1: the backend creates none.
  int replicas = 1;              ///< Contexts that will run at the same time, threads == 1 only.
  bool optimize = true;          ///< False: the reference run, no graph optimisation.
  bool flush_denormals = false;  ///< For the backend's own workers; the caller sets its own thread.
  Precision precision = Precision::kF32;
  std::chrono::microseconds spin{100};         ///< How long idle workers may spin.
  std::map<std::string, std::string> options;  ///< The engine's own keys, passed through.
  /// On a device of another machine: the backend there that compiles the model.
  std::string backend;
  /// On a server that has the model, in place of a file: "oip://host:port/name:version".
  std::string served;
  /// Other machines of the plan ("host:port"), whose stages may make what this one reads.
  std::vector<std::string> peers;
  /// Custom-operator libraries of the whole network. Who cannot load such leaves them to others.
  std::vector<std::filesystem::path> custom_ops;
};

/// Later than any time of a clock that counts nanoseconds.
inline constexpr std::int64_t kNoDeadline = std::numeric_limits<std::int64_t>::max();

/// What a run is told of its frame. A value: valid until run() returns, copied by who needs it
/// longer.
struct Call {
  std::uint64_t frame = 0;  ///< Its number: for messages, and for peers that know it by that.
  /// Nanoseconds of std::chrono::steady_clock. A call that cannot end in time may end with
  /// kDeadlineExceeded where run() says so, with kCancelled where wait() does. An engine that
  /// cannot stop may ignore it.
  std::int64_t deadline_ns = kNoDeadline;
  /// Wakes the caller of wait(): whoever finishes the run calls done(whom), on any thread, once for
  /// each run that was started, after its outputs are written and before wait() returns for it.
  /// It does not block and does not throw. Given to an Executable that is_asynchronous() only; null
  /// where nobody sleeps for it. `whom` is the caller's, and lives until wait() has returned for
  /// the run.
  void (*done)(void* whom) = nullptr;
  void* whom = nullptr;
  /// W3C trace context of who asked for the frame, for peers; empty: none. Valid until run()
  /// returns.
  std::string_view traceparent;
};

/// What another machine did of a run, in nanoseconds of this machine's steady clock, as far as that
/// can be told: each time is off by at most `error_ns`. 0: it did not happen, or is not known.
struct FarTimes {
  std::int64_t received_ns = 0;  ///< The inputs were there, but for those that it had to fetch.
  std::int64_t pulled_ns = 0;    ///< These too.
  std::int64_t begun_ns = 0;     ///< It was given to the stage there.
  std::int64_t ended_ns = 0;     ///< It was computed.
  std::int64_t error_ns = 0;
};

/// One caller's state of an Executable: scratch memory, bindings. One thread at a time calls run(),
/// wait() and the destructor; any thread calls the others.
class Context {
 public:
  virtual ~Context() = default;

  /// Computes one frame: starts it, and may return before it is finished (see wait()).
  ///
  /// `inputs[i]` and `outputs[i]` follow Executable::inputs() and outputs() and are never null.
  /// An output that arrives as kDense with data() holds the caller's buffer: the result is written
  /// there, after set_dims() where the type has open dimensions. One that arrives without storage
  /// (kind kNone), or whose buffer is too small, is replaced by storage that the backend allocates.
  /// Buffers repeat from call to call: a backend keeps what it bound for a (port, data pointer)
  /// and must not assume that a pointer it has seen still holds the same shape. Where run() returns
  /// before the frame is finished, the tensors are the backend's until wait() has returned for it;
  /// the two spans are the caller's again at once.
  ///
  /// All tensors lie in the memory of the device that the model was compiled for:
  /// Backend::memory(), or in the host's where that reaches_host(). What the backend puts in place
  /// of an output does too.
  ///
  /// An error means that the run was not started, or has ended: wait() is not called for it, and
  /// Call::done is not either. No exception leaves it. A failed run leaves the context usable.
  virtual Status run(const Call& call, std::span<const Tensor* const> inputs,
                     std::span<Tensor* const> outputs) = 0;

  /// Blocks until the oldest run that was started and not yet waited for is finished, or until
  /// `deadline_ns` (std::chrono::steady_clock, in nanoseconds), and returns how that run ended; at
  /// once where none was started. Runs of one context finish in the order of their start, runs of
  /// several contexts in any order. The default suits backends that compute on the caller's thread.
  /// \error kDeadlineExceeded  The run is in progress: its tensors are still the backend's, wait()
  ///                           may be called for it again. Nothing else has this code here.
  /// \error kCancelled         cancel() or Call::deadline_ns ended the run.
  virtual Status wait([[maybe_unused]] std::int64_t deadline_ns) { return {}; }

  /// Makes a run in progress return soon with kCancelled, if the engine can; where none is, the run
  /// that comes next: a caller that decides to cancel cannot know that the run has begun. A run is
  /// in progress until run(), and wait() where it is called, has returned. Several calls for one
  /// run are as one, and the run after it is computed. Any thread.
  virtual void cancel() noexcept {}

  /// Tensors copied and tensor buffers allocated by all runs so far (not the engine's scratch).
  struct Counters {
    std::uint64_t copies = 0;
    std::uint64_t allocations = 0;
  };
  [[nodiscard]] virtual Counters counters() const { return {}; }

  /// Of the run that wait() returned for last, where another machine computed it and says so.
  [[nodiscard]] virtual FarTimes far_times() const { return {}; }
};

/// A compiled model. Immutable; may be shared by threads; must outlive its contexts.
class Executable {
 public:
  virtual ~Executable() = default;
  [[nodiscard]] virtual std::span<const Port> inputs() const = 0;
  [[nodiscard]] virtual std::span<const Port> outputs() const = 0;
  virtual Result<std::unique_ptr<Context>> create_context() = 0;

  /// How many contexts, each with a run started and not yet waited for, make the most of it.
  [[nodiscard]] virtual int recommended_contexts() const { return 1; }

  /// Whether run() returns before the frame is finished, calls Call::done when it is, and takes up
  /// to recommended_contexts() runs, each on a context of its own.
  [[nodiscard]] virtual bool is_asynchronous() const { return false; }

  /// Whether its device is lost, as far as is known. A run would then not be started, and end as
  /// kUnavailable; one that was in progress does too. Such frames may be run elsewhere. It may come
  /// back. Any thread.
  [[nodiscard]] virtual bool is_lost() const { return false; }

  /// Threads that all contexts of an instance together may bring besides their workers, which
  /// compute no part of any frame and sleep while frames run: an engine's queues, one that waits
  /// for a device in each context. They stay on the caller's CPUs like the workers.
  [[nodiscard]] virtual int idle_threads() const { return 0; }

  /// Why, while it is_lost(). Empty: nothing is known of it. Any thread.
  [[nodiscard]] virtual std::string why_lost() const { return {}; }
};

/// Memory besides the host's own: a device's, another machine's. The host hands its tensors on and
/// never reads them. Any thread, several at a time.
class Memory {
 public:
  virtual ~Memory() = default;

  /// "cuda:0"; not "host". Memories of one name are one: whatever reads and writes the one reads
  /// and writes the other in place, of whichever backend it is.
  [[nodiscard]] virtual std::string name() const = 0;

  /// Storage as Tensor::reserve_in() describes it, in a domain other than the host's. Its owner
  /// frees it, and keeps alive whatever that needs: a tensor may be the last that is left of a
  /// pipeline.
  virtual Result<Tensor> allocate(DType dtype, std::size_t bytes) = 0;

  /// Copies `from.bytes()` bytes, of which there are some, to the beginning of `to`, which has as
  /// many; returns when they are there, and soon with an error where they never will be. It must
  /// return by itself: nobody gives it up as a run that hangs. One of the two is in this memory;
  /// the other one in the host's, or else `to` is here and `from` in a memory that it
  /// copies_from(). It throws nothing.
  ///
  /// But where it reaches_host(), either may be a part of what allocate() gave, and so may be
  /// whatever a run reads and writes: frames that one call takes lie one behind the other. A part's
  /// data() is that many bytes behind that of the whole, and its owner is the same.
  virtual Status copy(const Tensor& from, Tensor& to) = 0;

  /// Whether copy() takes tensors of that memory; of this one itself: from one place of it to
  /// another. What it does not take goes through the host's.
  [[nodiscard]] virtual bool copies_from([[maybe_unused]] const Memory& other) const {
    return false;
  }

  /// Whether runs take inputs and outputs that lie in the host's memory too, and bring them there
  /// and back. No edge to the host's needs a copy, and data() may be a handle: it has no parts.
  [[nodiscard]] virtual bool reaches_host() const { return false; }

  /// Whether tensors that a run has written may be lost, with the machine that has them, before all
  /// have read them. What they were made of is kept until then, so that they can be made again.
  /// \pre  reaches_host()
  [[nodiscard]] virtual bool may_lose() const { return false; }
  /// Whether that has become of this one.
  [[nodiscard]] virtual bool is_lost([[maybe_unused]] const Tensor& tensor) const { return false; }

  /// The frame whose value the tensor holds is over: what is kept for it may go. The storage stays
  /// and is written again.
  virtual void forget([[maybe_unused]] Tensor& tensor) noexcept {}
};

/// What `penstock backends` shows, and what a package remembers of the engine it was made with.
struct Description {
  std::string name;            ///< Lower-case and stable: "onnxruntime".
  std::string engine_version;  ///< "1.31.1"; empty while unavailable.
  std::string engine_file;     ///< The library that was taken.
  std::string unavailable;     ///< Why it cannot run, and what to do; empty when it can.
  bool whole_graph = true;     ///< Graph style (true) or library style.
};

/// A toolchain. Thread-safe. Made once per process, never unloaded.
class Backend {
 public:
  virtual ~Backend() = default;

  [[nodiscard]] virtual Description describe() const = 0;

  /// Which subgraphs it may be given, as a JSON text (docs/rules.md): `{"version": 1, "rule": …}`.
  /// It holds for the engine's installed version; the host never asks it to compile anything else
  /// of its own accord. Cheap; compiles nothing.
  [[nodiscard]] virtual std::string rules() const = 0;

  /// Below f32, in which it can compute an f32 model by instructions that this machine has. It
  /// never does so unless CompileRequest::precision asks for it.
  [[nodiscard]] virtual std::vector<Precision> lower_precisions() const { return {}; }

  /// Whether it can run a model there; compile() for any other device is kUnimplemented. Cheap: it
  /// looks for no device, and does not say whether the engine is present.
  [[nodiscard]] virtual bool accepts(const device::Device& device) const {
    return device.is_local_cpu();
  }

  /// In which the models compiled for the device read their inputs and write their outputs; null:
  /// the host's. Asked before compile(). It looks for no device: where there is none, allocate()
  /// and compile() say so.
  [[nodiscard]] virtual std::shared_ptr<Memory> memory(
      [[maybe_unused]] const device::Device& device) const {
    return nullptr;
  }

  /// What the device is, for people and by which costs that were measured there are kept: its
  /// maker's name of it, the same for devices that are alike. Empty: it has none beside that of its
  /// place, or is not there.
  [[nodiscard]] virtual std::string device_name(
      [[maybe_unused]] const device::Device& device) const {
    return "";
  }

  /// Called on the thread that will run it, after its affinity and floating-point mode are set:
  /// worker threads inherit both. Threads it creates: exactly `threads - 1`, and as many besides
  /// as Executable::idle_threads() says.
  /// \error kUnavailable      the engine is not there; the message says where it was sought.
  /// \error kUnimplemented    the engine cannot run the model; names the operator if it can tell.
  /// \error kInvalidArgument  the model, an option or a custom-operator library is wrong.
  /// \error kFailedPrecondition  not beside what the engine has in this process already.
  virtual Result<std::unique_ptr<Executable>> compile(const CompileRequest& request) = 0;
};

/// What every plugin exports: `extern "C" const PluginEntry* penstock_plugin();`
struct PluginEntry {
  int abi_version;       ///< kAbiVersion at its build. Must stay the first member.
  const char* build;     ///< kBuild at its build: compiler ABI and build flavour.
  const char* name;      ///< "onnxruntime"
  Backend* (*create)();  ///< Called once; the host owns the result.
};

/// Two C++ libraries exchange these classes only if this string is equal in both.
#if defined(__SANITIZE_ADDRESS__)
#define PENSTOCK_BUILD_FLAVOUR "asan"
#elif defined(__SANITIZE_THREAD__)
#define PENSTOCK_BUILD_FLAVOUR "tsan"
#else
#define PENSTOCK_BUILD_FLAVOUR "plain"
#endif
#define PENSTOCK_STRING_OF(x) #x
#define PENSTOCK_STRING(x) PENSTOCK_STRING_OF(x)
inline constexpr const char* kBuild =
    "cxxabi" PENSTOCK_STRING(__GXX_ABI_VERSION) "-" PENSTOCK_BUILD_FLAVOUR;

}  // namespace penstock::backend

/// Put once in a plugin, outside any namespace: PENSTOCK_PLUGIN("acme", AcmeBackend)
#define PENSTOCK_PLUGIN(plugin_name, BackendClass)                                          \
  extern "C" __attribute__((visibility("default"))) const ::penstock::backend::PluginEntry* \
  penstock_plugin() {                                                                       \
    static const ::penstock::backend::PluginEntry entry{                                    \
        ::penstock::backend::kAbiVersion, ::penstock::backend::kBuild, plugin_name,         \
        []() -> ::penstock::backend::Backend* { return new BackendClass(); }};              \
    return &entry;                                                                          \
  }
