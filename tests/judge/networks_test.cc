// Whole networks before the judge: no right engine is refused, no planted fault passes.
//
// PENSTOCK_TEST_MODELS: a folder of networks, NAME/model.onnx; only those of our own generator are
// tried without it.
// PENSTOCK_JUDGED: a file that gets a line for each network and seed that was done, and those that
// it names already are not done again (script/judge).
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/backend/plain_model.h"
#include "penstock/backend/registry.h"
#include "penstock/device/device.h"
#include "penstock/measure/judge.h"
#include "penstock/measure/variants.h"
#include "penstock/session/known_outputs.h"
#include "penstock/session/session.h"
#include "penstock/session/shaken.h"
#include "tests/support/faulty_outputs.h"
#include "tests/support/sample.h"

namespace penstock::measure {
namespace {

namespace fs = std::filesystem;

using Outputs = std::vector<Tensor>;

constexpr std::uint64_t kSeeds = 100;
/// Where blocks of seeds end. Small ones first: a sweep that is ended early has seen all networks.
constexpr std::uint64_t kBlockEnds[] = {1, 4, 10, 20, 30, 40, 50, 60, 70, 80, 90, kSeeds};
constexpr std::size_t kFrames = 4;

/// What must be known of inputs with open dimensions: network and --shape.
constexpr std::pair<std::string_view, const char*> kShapes[] = {
    {"basic_pitch", "serving_default_input_2:0=1x43844x1"},
    {"silero_vad_16k_op15", "input=1x576"},
    {"silero_vad_16k_op15", "state=2x1x128"},
    {"super_resolution_10", "input=1x1x224x224"},
};

struct Network {
  std::string name;
  fs::path file;
};

std::vector<Network> networks() {
  std::vector<Network> found;
  const char* given = std::getenv("PENSTOCK_TEST_MODELS");
  for (const char* folder : {given, PENSTOCK_MADE_NETWORKS}) {
    if (folder == nullptr) continue;
    for (const auto& entry : fs::directory_iterator(folder)) {
      const auto& path = entry.path();
      if (fs::exists(path / "model.onnx")) found.push_back({path.filename(), path / "model.onnx"});
      if (path.extension() == ".onnx") found.push_back({path.stem(), path});
    }
  }
  std::ranges::sort(found, {}, &Network::name);
  return found;
}

/// One that lives longer.
class Borrowed final : public Reference {
 public:
  explicit Borrowed(Reference& of) : of_(of) {}
  Result<std::vector<Tensor>> run(const frames::Frame& frame) override { return of_.run(frame); }

 private:
  Reference& of_;
};

/// A network packed whole, its frames and the engines.
class Subject {
 public:
  Subject(const Network& network, const backend::Registry& backends)
      : network_(network), backends_(backends) {
    graph::ImportOptions options;
    for (const auto& [name, text] : kShapes) {
      if (name == network.name) options.shapes.insert(*graph::parse_shape(text));
    }
    auto graph = import_model(network.file, options, backends);
    EXPECT_TRUE(graph) << graph.error().message();
    package_ = *pack_model(*graph, {}, backends);
    for (const auto& output : package_.plan.outputs) names_.push_back(output.name);
  }

  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

  [[nodiscard]] std::vector<frames::Frame> frames(std::uint64_t seed) const {
    auto all = frames::random_frames(package_.plan.inputs, {.seed = seed}, kFrames);
    EXPECT_TRUE(all) << all.error().message();
    for (std::size_t i = 0; i < package_.plan.inputs.size(); ++i) {
      if (package_.plan.inputs[i].name != "sr") continue;  // The rate of samples.
      for (auto& frame : *all) frame[i].as<std::int64_t>()[0] = 16000;
    }
    return *std::move(all);
  }

  /// ONNX Runtime on the file as it is, not optimised: made once, as are the others.
  Reference& reference() { return *run_of("reference", {}); }

  [[nodiscard]] std::vector<MakeReference> others() {
    std::vector<MakeReference> others;
    for (const bool optimize : {true, false}) {
      const char* const name = optimize ? "onnxruntime optimised" : "onnxruntime one thread";
      others.emplace_back([this, name, optimize]() -> Result<std::unique_ptr<Reference>> {
        return std::unique_ptr<Reference>(std::make_unique<Borrowed>(
            *run_of(name, {.optimize = optimize, .one_thread = !optimize})));
      });
    }
    others.push_back(kept("noisy", noisy(DType::kF32)));
    return others;
  }

  /// What verify and build ask too about a frame that differs: steps of quantisation changed in the
  /// last bit.
  [[nodiscard]] std::vector<MakeReference> for_second_look() {
    auto all = others();
    const auto makers = shaken_references(network_.file, package_, backends_, {});
    for (std::size_t i = 0; i < makers.size(); ++i) {
      all.push_back(kept(concat("shaken ", i), makers[i]));
    }
    return all;
  }

  [[nodiscard]] Judge judge(const std::vector<frames::Frame>& frames) {
    Judge::Setting setting{names_, {}, frames, others(), known_outputs(package_)};
    setting.half = kept("noisy f16", noisy(DType::kF16));
    auto judge = Judge::create(setting, reference());
    EXPECT_TRUE(judge) << judge.error().message();
    return *std::move(judge);
  }

  /// The outputs of another engine, or of other settings, of all frames; empty: it does not run it.
  std::vector<Outputs> outputs_of(const std::string& engine,
                                  const std::vector<frames::Frame>& frames) {
    std::vector<Outputs> all;
    for (const auto& frame : frames) {
      if (engine.starts_with("onnxruntime")) {
        auto outputs = run_of(engine, {.optimize = engine.find("optimised") != std::string::npos,
                                       .one_thread = engine.ends_with("one thread")})
                           ->run(frame);
        EXPECT_TRUE(outputs) << outputs.error().message();
        all.push_back(*std::move(outputs));
      } else {
        auto outputs = outputs_of_stage(engine, frame);
        if (!outputs) return {};
        all.push_back(*std::move(outputs));
      }
    }
    return all;
  }

 private:
  [[nodiscard]] MakeReference noisy(DType type) const {
    return noisy_reference(type, network_.file, package_, backends_, {});
  }

  /// What `make` makes, made once.
  MakeReference kept(const std::string& name, const MakeReference& make) {
    return [this, name, make]() -> Result<std::unique_ptr<Reference>> {
      auto& run = runs_[name];
      if (!run) {
        PENSTOCK_TRY(run, make());
      }
      return std::unique_ptr<Reference>(std::make_unique<Borrowed>(*run));
    };
  }

  Reference* run_of(const std::string& name, const ReferenceSettings& settings) {
    auto& run = runs_[name];
    if (!run) {
      auto made = whole_reference(network_.file, package_, backends_, settings);
      EXPECT_TRUE(made) << made.error().message();
      run = *std::move(made);
    }
    return run.get();
  }

  Result<Outputs> outputs_of_stage(const std::string& engine, const frames::Frame& frame) {
    if (!plain_.contains(engine)) {
      auto made = make_plain(engine);
      plain_.emplace(engine, made ? std::optional(*std::move(made)) : std::nullopt);
    }
    auto& model = plain_.at(engine);
    if (!model) return make_error(Code::kUnimplemented, engine);
    std::vector<const Tensor*> inputs;
    for (const auto& port : model->inputs()) {
      const auto place =
          std::ranges::find(package_.plan.inputs, port.name, &plan::TensorInfo::name);
      inputs.push_back(&frame[static_cast<std::size_t>(place - package_.plan.inputs.begin())]);
    }
    PENSTOCK_CHECK_OK(model->run(inputs));
    const auto values = model->take_values();
    Outputs ordered;
    for (const auto& name : names_) {
      const auto port = std::ranges::find(model->outputs(), name, &backend::Port::name);
      ordered.push_back(values[static_cast<std::size_t>(port - model->outputs().begin())].clone());
    }
    return ordered;
  }

  Result<backend::PlainModel> make_plain(const std::string& engine) {
    PENSTOCK_TRY(const auto found, backends_.find(engine));
    backend::CompileRequest request;
    request.name = engine;
    request.file = package_.folder / package_.plan.stages.front().partitions.front().model;
    request.device.cpus = device::inherited_cpus();
    return backend::PlainModel::create(*found, request);
  }

  const Network& network_;
  const backend::Registry& backends_;
  plan::Package package_;
  std::vector<std::string> names_;
  std::map<std::string, std::unique_ptr<Reference>> runs_;
  std::map<std::string, std::optional<backend::PlainModel>> plain_;
};

Verdict verdict_on(Subject& subject, const Judge& judge, const std::vector<frames::Frame>& frames,
                   const std::vector<Outputs>& actual) {
  Trial trial(judge);
  for (std::size_t f = 0; f < frames.size(); ++f) {
    std::vector<const Tensor*> values;
    for (const auto& value : actual[f]) values.push_back(&value);
    trial.add(f, frames[f], values, judge.expected()[f]);
  }
  trial.look_again(subject.reference(), subject.for_second_look());
  return trial.verdict();
}

// Faults.

std::vector<Outputs> each(const std::vector<Outputs>& right,
                          const std::function<Tensor(const Tensor&)>& change) {
  auto wrong = right;
  for (auto& outputs : wrong) {
    for (auto& value : outputs) value = change(value);
  }
  return wrong;
}

/// Every frame gets what the one `by` before it had.
std::vector<Outputs> of_other_frames(const std::vector<Outputs>& right, std::size_t by) {
  auto wrong = right;
  for (std::size_t f = 0; f < right.size(); ++f) {
    wrong[f] = right[(f + right.size() - by) % right.size()];
  }
  return wrong;
}

/// As if the frames were one batch, of which the last row was not computed.
std::vector<Outputs> wrong_last_row(const std::vector<Outputs>& right) {
  auto wrong = right;
  for (auto& value : wrong.back()) value = zeros(value);
  return wrong;
}

/// Outputs of equal type and shape change places; empty: there are none.
std::vector<Outputs> swapped(const std::vector<Outputs>& right) {
  auto wrong = right;
  const auto count = right.front().size();
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = i + 1; k < count; ++k) {
      const auto& [one, other] = std::tie(right.front()[i], right.front()[k]);
      if (one.dtype() != other.dtype() || one.dims() != other.dims()) continue;
      for (auto& outputs : wrong) std::swap(outputs[i], outputs[k]);
      return wrong;
    }
  }
  return {};
}

std::vector<Outputs> in_bf16(Subject& subject, const std::vector<frames::Frame>& frames) {
  std::vector<Outputs> wrong;
  for (const auto& frame : frames) {
    wrong.push_back(*subject.reference().run(rounded_to(DType::kBF16, frame)));
    for (auto& value : wrong.back()) value = rounded_to(DType::kBF16, value);
  }
  return wrong;
}

std::map<std::string, std::vector<Outputs>> faults(Subject& subject, const Judge& judge,
                                                   const std::vector<frames::Frame>& frames) {
  const auto& right = judge.expected();
  std::map<std::string, std::vector<Outputs>> all{
      {"zeros", each(right, zeros)},
      {"shifted channels", each(right, shifted_channels)},
      {"one wrong block", each(right, one_wrong_block)},
      {"the previous frame's", of_other_frames(right, 1)},
      {"another frame's", of_other_frames(right, 2)},
      {"a wrong last row", wrong_last_row(right)},
      {"bf16", in_bf16(subject, frames)},
      {"swapped outputs", swapped(right)}};
  std::erase_if(all, [](const auto& fault) { return fault.second.empty(); });
  return all;
}

/// Whether the fault changes nothing, as where the channel is one.
bool changes_nothing(const std::vector<Outputs>& wrong, const std::vector<Outputs>& right) {
  return std::ranges::equal(wrong, right, same_values);
}

/// Whether no verdict is sure for one reason alone: all frames give about the same, as where a
/// network is always sure of one class. Then another frame's outputs are no fault that shows.
bool is_saturated(const Verdict& verdict) {
  return std::ranges::all_of(verdict.outputs, [](const OutputVerdict& output) {
    return output.finding == Finding::kRight ||
           (output.finding == Finding::kInconclusive && output.mismatches == 0 &&
            output.allowed.compared && !output.allowed.told_apart);
  });
}

/// What is said of right outputs that are not found right.
std::vector<std::string> refused_engines(Subject& subject, const Judge& judge,
                                         const std::vector<frames::Frame>& frames) {
  std::vector<std::string> failures;
  for (const char* engine : {"onnxruntime optimised", "onnxruntime optimised, one thread",
                             "onnxruntime one thread", "openvino", "onednn"}) {
    const auto outputs = subject.outputs_of(engine, frames);
    if (outputs.empty()) continue;
    const auto verdict = verdict_on(subject, judge, frames, outputs);
    if (verdict.finding() == Finding::kRight || is_saturated(verdict)) continue;
    failures.push_back(concat(engine, " is ", to_string(verdict.finding()), ": ",
                              verdict.reason(Finding::kWrong),
                              verdict.reason(Finding::kInconclusive)));
  }
  return failures;
}

/// What is said of wrong outputs that are not found wrong.
std::vector<std::string> passing_faults(Subject& subject, const Judge& judge,
                                        const std::vector<frames::Frame>& frames) {
  // A quantised network whose own outputs jump with the last bits of its inputs may leave it open
  // whether a fault is such a jump; it never passes.
  const bool jumps = std::ranges::any_of(
      judge.allowances(), [](const auto& allowed) { return allowed.own_rate > 0.01; });
  std::vector<std::string> failures;
  for (const auto& [fault, outputs] : faults(subject, judge, frames)) {
    if (changes_nothing(outputs, judge.expected())) continue;
    const auto verdict = verdict_on(subject, judge, frames, outputs);
    if (verdict.finding() == Finding::kWrong) continue;
    const bool open = verdict.finding() == Finding::kInconclusive;
    if (open && is_saturated(verdict)) continue;
    if (open && jumps) continue;
    failures.push_back(concat(fault, " is ", to_string(verdict.finding()), " ",
                              verdict.reason(Finding::kInconclusive)));
  }
  return failures;
}

/// What a sweep that was ended has done already, a line each: "NETWORK SEED", then what failed.
class Done {
 public:
  Done() {
    const char* file = std::getenv("PENSTOCK_JUDGED");
    if (file == nullptr) return;
    file_ = file;
    std::ifstream lines(file_);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string name, failure;
      std::uint64_t seed = 0;
      words >> name >> seed;
      std::getline(words >> std::ws, failure);
      EXPECT_EQ(failure, "") << name << ", seed " << seed;
      done_.emplace(name, seed);
    }
  }

  [[nodiscard]] bool contains(const std::string& name, std::uint64_t seed) const {
    return done_.contains({name, seed});
  }
  void add(const std::string& name, std::uint64_t seed, const std::vector<std::string>& failures) {
    if (file_.empty()) return;
    std::string line = concat(name, " ", seed);
    for (const auto& failure : failures) line += " " + failure + ";";
    std::ranges::replace(line, '\n', ' ');
    std::ofstream(file_, std::ios::app) << line + "\n" << std::flush;
  }

 private:
  fs::path file_;
  std::set<std::pair<std::string, std::uint64_t>> done_;
};

/// Frames that the network answers differently: those of the seed, else of another, as verify()
/// seeks them. A network is sure of one class for four frames now and then.
std::vector<frames::Frame> telling_frames(Subject& subject, std::uint64_t seed) {
  constexpr std::uint64_t kTries = 6;
  for (std::uint64_t next = seed; next < seed + kTries * kSeeds; next += kSeeds) {
    auto frames = subject.frames(next);
    const auto judge = subject.judge(frames);
    const bool tell = std::ranges::none_of(judge.allowances(), [](const Allowance& allowed) {
      return allowed.compared && !allowed.told_apart;
    });
    if (tell) return frames;
  }
  return subject.frames(seed);
}

/// All, but of a sanitized run a sample: one network takes as long there as ten do elsewhere.
std::vector<Network> networks_to_judge() {
  const auto all = networks();
  if (!kSanitized) return all;
  std::vector<Network> taken;
  for (const auto n : Sweep(2, "/networks").places(all)) taken.push_back(all[n]);
  return taken;
}

/// Blocks of seeds, each over all networks.
TEST(JudgedNetworks, NoRightEngineIsRefusedAndNoPlantedFaultPasses) {
  const auto backends = backend::Registry::load();
  const auto all = networks_to_judge();
  std::vector<std::vector<std::uint64_t>> seeds;
  for (const auto& network : all) {
    seeds.push_back(Sweep(300, "/" + network.name).numbers(0, kSeeds));
  }
  Done done;
  std::uint64_t from = 0;
  for (const auto end : kBlockEnds) {
    for (std::size_t n = 0; n < all.size(); ++n) {
      const auto& name = all[n].name;
      auto block = seeds[n];
      std::erase_if(block, [&](std::uint64_t seed) {
        return seed < from || seed >= end || done.contains(name, seed);
      });
      if (block.empty()) continue;
      Subject subject(all[n], backends);
      for (const auto seed : block) {
        const auto frames = telling_frames(subject, seed);
        const auto judge = subject.judge(frames);
        auto failures = refused_engines(subject, judge, frames);
        std::ranges::move(passing_faults(subject, judge, frames), std::back_inserter(failures));
        EXPECT_THAT(failures, ::testing::IsEmpty()) << name << ", seed " << seed;
        done.add(name, seed, failures);
      }
    }
    from = end;
  }
}

}  // namespace
}  // namespace penstock::measure
