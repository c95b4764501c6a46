// Makes a plan of one stage that sends its frames to a server's model, and starts it.
#include "penstock/app/connect.h"

#include <string>
#include <utility>

#include "penstock/app/parts.h"

namespace penstock::app {

Result<plan::Plan> plan_of_served(const ServedNode& model, const backend::Registry& backends) {
  Node node;
  node.name = "model";
  node.runs = model;
  PENSTOCK_TRY(auto part, make_part(node, backends, {}));
  plan::Plan plan = std::move(part.plan);
  plan.model = model.model.name.empty() ? model.model.address : model.model.name;
  auto& stage = plan.stages.front();
  auto& partition = stage.partitions.front();
  stage.name = node.name;
  for (const auto& input : plan.inputs) partition.inputs.push_back(input.name);
  for (const auto& output : plan.outputs) partition.outputs.push_back(output.name);
  stage.inputs = partition.inputs;
  stage.outputs = partition.outputs;
  partition.options.clear();
  plan::connect(plan);
  return plan;
}

Result<std::unique_ptr<pipeline::Pipeline>> connect(const ServedNode& model,
                                                    const backend::Registry& backends,
                                                    pipeline::Options options) {
  PENSTOCK_TRY(const auto plan, plan_of_served(model, backends));
  auto& remote = options.backend_options[std::string(plan::kRemoteBackend)];
  remote.insert(model.options.begin(), model.options.end());
  return pipeline::Pipeline::start(plan, ".", backends, options);
}

}  // namespace penstock::app
