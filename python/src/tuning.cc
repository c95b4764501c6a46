#include "tuning.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "errors.h"
#include "gil.h"
#include "penstock/follow/tuner.h"
#include "penstock/session/load.h"
#include "pipeline.h"
#include "request.h"
#include "to_object.h"

namespace penstock::python {
namespace {

/// Keeps its pipeline. Its methods leave the GIL alone while they wait.
class Tuner {
 public:
  using Tuning = std::unique_ptr<follow::Tuner, DeletedWithoutGil>;

  Tuner(nb::object pipeline, Tuning tuner)
      : pipeline_(std::move(pipeline)), tuner_(std::move(tuner)) {}

  void stop() {
    without_gil([&] { tuner_->stop(); });
  }
  [[nodiscard]] nb::dict report() const;

 private:
  nb::object pipeline_;
  Tuning tuner_;
};

nb::dict Tuner::report() const {
  const auto report = tuner_->report();
  nb::list swaps;
  for (const auto& swap : report.swaps) {
    nb::dict dict;
    dict["seconds"] = swap.seconds;
    dict["from"] = swap.from;
    dict["to"] = swap.to;
    dict["gain"] = swap.gain;
    dict["back"] = swap.back;
    dict["refused"] = swap.refused;
    swaps.append(dict);
  }
  nb::dict dict;
  dict["candidates"] = report.candidates;
  dict["running"] = report.running;
  dict["swaps"] = swaps;
  dict["start_seconds"] = report.start_seconds;
  dict["ended"] = report.ended;
  return dict;
}

Result<std::vector<plan::Package>> load_all(const std::vector<std::string>& paths) {
  std::vector<plan::Package> packages;
  for (const auto& path : paths) {
    PENSTOCK_TRY(packages.emplace_back(), load_package(path));
  }
  return packages;
}

/// The same; who lets the last one go need not hold the GIL.
std::shared_ptr<pipeline::Pipeline> for_any_thread(std::shared_ptr<pipeline::Pipeline> running) {
  auto* const itself = running.get();
  const auto let_go = [kept = std::move(running)](pipeline::Pipeline*) mutable {
    const WithGil gil;
    kept.reset();
  };
  return {itself, let_go};
}

nb::object tune(nb::object of, nb::dict dict) {
  auto& pipeline = nb::cast<Pipeline&>(of);
  const Options options(std::move(dict));
  const auto paths = options.get<std::vector<std::string>>("packages");
  follow::Tuner::Setting setting;
  setting.share = options.get<double>("share");
  setting.others = value_or_raise(without_gil([&] { return load_all(paths); }));
  auto running = for_any_thread(pipeline.tuned());
  setting.replace = [running, run = pipeline.run_options()](const plan::Plan& plan,
                                                            const std::filesystem::path& folder) {
    return running->replace(plan, folder, backends(), run.pipeline);
  };
  setting.swapped = [&pipeline](const follow::Swap&) {
    const WithGil gil;
    pipeline.look_at_outputs();
  };
  auto started = value_or_raise(without_gil([&] {
    return follow::Tuner::start(std::move(running), pipeline.package(), std::move(setting));
  }));
  Tuner::Tuning tuning(started.release());
  return to_object(std::make_unique<Tuner>(std::move(of), std::move(tuning)));
}

}  // namespace

void bind_tuning(nb::module_& module) {
  nb::class_<Tuner>(module, "Tuner").def("stop", &Tuner::stop).def("report", &Tuner::report);
  module.def("tune", &tune, nb::arg("pipeline"), nb::arg("options"));
}

}  // namespace penstock::python
