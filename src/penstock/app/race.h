// Plans of an application, judged, and run beside one another. Internal to app.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/app/tuning.h"
#include "penstock/measure/judge.h"
#include "penstock/measure/reference.h"
#include "penstock/measure/side.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/plan/package.h"
#include "penstock/tune/report.h"

namespace penstock::app {

/// A plan of the application, and what became of it.
struct Candidate {
  tune::WayReport way;
  const plan::Package* package = nullptr;  ///< Whose files it has.
  plan::Plan plan;
  bool simple = false;
  std::map<std::string, std::string> doubts;  ///< measure::Verdict::doubts() of it.
  bool lacks_room = false;                    ///< An engine of it may stand once in a process only.
  std::unique_ptr<pipeline::Pipeline> pipeline;
};

/// Borrows what it is made of.
class Race {
 public:
  /// `written` is the reference; `ring` are frames that come out of it.
  Race(const Tuning& tuning, const plan::Package& written, const measure::Ring& ring)
      : tuning_(tuning), written_(written), ring_(ring) {}

  /// The package's plan with these devices for each stage; none for a stage: as they are. Of equals
  /// the first is taken.
  void enter(const char* name, const plan::Package& package, bool simple,
             const std::vector<std::vector<device::Device>>& devices);

  /// Leaves out what does not run, or gives other outputs. \error of the reference.
  Status judge();

  /// The others in turn. `frame_seconds`: what a frame takes in all stages, about.
  /// \error kFailedPrecondition  none is left: with the reasons.
  Status run(double frame_seconds);

  [[nodiscard]] const std::vector<Candidate>& candidates() const { return candidates_; }
  /// \pre run() \returns the fastest.
  [[nodiscard]] const Candidate& best() const;
  /// Says what was allowed in each output, and where the judge is not sure of the best. \pre run()
  void describe_outputs(tune::Report& report) const;

 private:
  [[nodiscard]] Result<std::unique_ptr<measure::Reference>> make_reference(bool optimized) const;
  Result<measure::Judge> make_judge();
  void try_frames(Candidate& candidate);
  Status run_alone();
  Result<bool> run_beside(const std::vector<Candidate*>& running);
  [[nodiscard]] Error no_plan() const;

  const Tuning& tuning_;
  const plan::Package& written_;
  const measure::Ring& ring_;
  double frame_seconds_ = 0;
  std::vector<Candidate> candidates_;
  std::optional<measure::Judge> judge_;
  std::vector<measure::MakeReference> others_;  ///< That are right as well.
  std::vector<std::vector<Tensor>> expected_;
};

}  // namespace penstock::app
