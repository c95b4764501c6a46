#include "watching.h"

#include <memory>
#include <new>
#include <string>
#include <utility>

#include "errors.h"
#include "gil.h"
#include "penstock/gateway/watching.h"
#include "pipeline.h"
#include "request.h"
#include "to_object.h"

namespace penstock::python {
namespace {

/// Its methods leave the GIL alone while they wait.
class Watching {
 public:
  explicit Watching(std::unique_ptr<gateway::Watching> watching)
      : address_(watching->address()), watching_(std::move(watching)) {}
  Watching(const Watching&) = delete;
  Watching& operator=(const Watching&) = delete;
  ~Watching() {
    try {
      without_gil([&] { static_cast<void>(watching_->stop()); });
    } catch (const std::bad_alloc&) {
      return;  // It stops as it is destroyed.
    }
  }

  [[nodiscard]] const std::string& address() const { return address_; }
  void stop() {
    const Status stopped = without_gil([&] { return watching_->stop(); });
    if (!stopped) raise(stopped.error());
  }

 private:
  const std::string address_;
  const std::unique_ptr<gateway::Watching> watching_;
};

nb::object watch(const Pipeline& pipeline, nb::dict dict) {
  const Options options(std::move(dict));
  gateway::WatchOptions how;
  how.address = options.get<std::string>("address");
  how.insecure = options.get<bool>("insecure");
  how.tokens = options.get<std::string>("tokens");
  how.page = options.get<bool>("page");
  how.record = options.get<std::string>("record");
  how.report = pipeline.report();
  auto watched = pipeline.watched();
  auto started =
      value_or_raise(without_gil([&] { return gateway::start_watching(std::move(watched), how); }));
  auto watching = std::make_unique<Watching>(std::move(started));
  return to_object(std::move(watching));
}

}  // namespace

void bind_watching(nb::module_& module) {
  nb::class_<Watching>(module, "Watching")
      .def_prop_ro("address", &Watching::address)
      .def("stop", &Watching::stop);
  module.def("watch", &watch, nb::arg("pipeline"), nb::arg("options"));
}

}  // namespace penstock::python
