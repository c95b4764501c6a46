// Compiles a job's models, connects them by tensor names, and cycles through a ring of inputs.
#include "penstock/probe/chain.h"

#include <algorithm>
#include <set>

#include "penstock/tensor/npy.h"
#include "penstock/tensor/random.h"

namespace penstock::probe {
namespace {

constexpr std::size_t kMostFrames = 16;
constexpr std::size_t kFewestFrames = 2;

/// The same stream for a name in whatever order the inputs stand.
std::uint64_t seed_of(std::uint64_t seed, const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL ^ seed;  // FNV-1a
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  return hash;
}

/// The type with its open dimensions as the job has them.
Type bound_type(const backend::Port& port, const cost::Job& job) {
  Type type = port.type;
  const auto shape = job.shapes.find(port.name);
  if (shape == job.shapes.end() || type.kind != Type::Kind::kTensor) return type;
  return Type::tensor(type.dtype, std::span<const std::int64_t>(shape->second));
}

/// Whether every open dimension carries the name of one of the inputs'.
bool follows(const Type& type, const std::set<std::string>& symbols) {
  return type.ranked && std::ranges::all_of(type.dims, [&](const Dim& dim) {
           return dim.fixed() || (!dim.symbol.empty() && symbols.contains(dim.symbol));
         });
}

}  // namespace

Result<std::unique_ptr<Chain>> Chain::compile(const backend::Registry& backends,
                                              const cost::Job& job, const std::vector<int>& cpus) {
  std::unique_ptr<Chain> chain(new Chain(job));
  for (const auto& model : job.models) {
    PENSTOCK_CHECK_OK(chain->add_link(backends, model, cpus));
  }
  return chain;
}

Chain::~Chain() {
  // Tensors are the engine's until their run has ended.
  [[maybe_unused]] const auto ended = finish_all();
}

Status Chain::add_link(const backend::Registry& backends, const cost::JobModel& model,
                       const std::vector<int>& cpus) {
  PENSTOCK_TRY(const auto backend, backends.find(model.backend));
  backend::CompileRequest request;
  request.name = model.name;
  request.file = model.file;
  request.device.cpus = cpus;
  if (!job_.device.empty()) {
    PENSTOCK_TRY(request.device, device::parse_device(job_.device));
    if (!backend->accepts(request.device)) {
      return make_error(Code::kUnimplemented, "backend '", model.backend, "' does not run on '",
                        job_.device, "'");
    }
    if (job_.models.size() > 1) {
      return make_error(Code::kUnimplemented, "expected one model on '", job_.device, "', found ",
                        job_.models.size());
    }
    memory_ = backend->memory(request.device);
    if (memory_ && memory_->reaches_host()) memory_.reset();
  }
  request.threads = job_.threads;
  request.optimize = model.optimize;
  request.flush_denormals = job_.flush_denormals;
  request.precision = model.precision;
  request.options = model.options;
  request.custom_ops = model.custom_ops;
  auto link = std::make_unique<Link>();
  link->name = model.name;
  PENSTOCK_TRY(link->executable, backend->compile(request));
  PENSTOCK_CHECK_OK(add_lanes(*link));
  links_.push_back(std::move(link));
  return {};
}

/// As many as the pipeline gives the stage, where the engine computes by itself on a device.
Status Chain::add_lanes(Link& link) {
  const bool several = !job_.device.empty() && link.executable->is_asynchronous();
  link.lanes.resize(
      static_cast<std::size_t>(several ? std::max(1, link.executable->recommended_contexts()) : 1));
  for (auto& lane : link.lanes) {
    PENSTOCK_TRY(lane.context, link.executable->create_context());
    lane.values.resize(link.executable->outputs().size());
    for (auto& value : lane.values) lane.outputs.push_back(&value);
    for (std::size_t i = 0; i < lane.values.size(); ++i) lane.unbound.push_back(i);
  }
  return memory_ ? reserve_outputs(link) : Status();
}

/// In the device's memory all outputs that have a bound have their place before the first run, as
/// in a pipeline, which takes no others there.
Status Chain::reserve_outputs(Link& link) const {
  const auto ports = link.executable->outputs();
  for (auto& lane : link.lanes) {
    lane.unbound.clear();
    for (std::size_t i = 0; i < ports.size(); ++i) {
      const auto bytes = ports[i].type.max_bytes();
      if (!bytes) {
        lane.unbound.push_back(i);
        continue;
      }
      PENSTOCK_TRY(lane.values[i], memory_->allocate(ports[i].type.dtype, *bytes));
      std::vector<std::int64_t> dims;
      for (const auto& dim : ports[i].type.dims) dims.push_back(dim.likely());
      if (!lane.values[i].set_dims(dims)) {
        return internal_error("memory '", memory_->name(), "' gave less than ", *bytes, " bytes");
      }
    }
  }
  return {};
}

const Tensor* Chain::find_made(const std::string& name, std::size_t before) const {
  for (std::size_t l = 0; l < before; ++l) {
    const auto ports = links_[l]->executable->outputs();
    const auto found = std::ranges::find(ports, name, &backend::Port::name);
    if (found != ports.end())
      return links_[l]->lanes.front().outputs[static_cast<std::size_t>(found - ports.begin())];
  }
  return nullptr;
}

Result<Tensor> Chain::value_of(const backend::Port& port, std::uint64_t seed) const {
  const auto given = job_.values.find(port.name);
  if (given != job_.values.end()) {
    return read_npy(given->second[seed % given->second.size()], port.type.dtype);
  }
  Random random(seed_of(seed, port.name));
  return random_tensor(bound_type(port, job_), random);
}

Result<Chain::Frame> Chain::make_frame(std::uint64_t seed) const {
  Frame frame;
  for (std::size_t l = 0; l < links_.size(); ++l) {
    for (const auto& port : links_[l]->executable->inputs()) {
      if (find_made(port.name, l) != nullptr || frame.contains(port.name)) continue;
      auto value = value_of(port, seed);
      if (!value) return std::move(value).error().within({Where::kInput, port.name});
      auto there = brought(*value);
      if (!there) return std::move(there).error().within({Where::kInput, port.name});
      frame.emplace(port.name, *std::move(there));
    }
  }
  return frame;
}

/// The value, of the host's memory, where the models read it.
Result<Tensor> Chain::brought(const Tensor& value) const {
  if (!memory_) return value;
  if (value.kind() != Tensor::Kind::kDense) {
    return make_error(Code::kUnimplemented, "values of type ", to_string(value.type()),
                      " have no place in memory '", memory_->name(), "'");
  }
  PENSTOCK_TRY(auto there, memory_->allocate(value.dtype(), value.bytes()));
  if (!there.set_dims(value.dims())) {
    return internal_error("memory '", memory_->name(), "' gave less than ", value.bytes(),
                          " bytes");
  }
  if (value.bytes() > 0) PENSTOCK_CHECK_OK(memory_->copy(value, there));
  return there;
}

Status Chain::connect() {
  next_ = 0;
  for (std::size_t l = 0; l < links_.size(); ++l) {
    Link& link = *links_[l];
    link.inputs.assign(ring_.size(), {});
    for (std::size_t f = 0; f < ring_.size(); ++f) {
      for (const auto& port : link.executable->inputs()) {
        const Tensor* made = find_made(port.name, l);
        link.inputs[f].push_back(made != nullptr ? made : &ring_[f].at(port.name));
      }
    }
  }
  return {};
}

Status Chain::use_seed(std::uint64_t seed) {
  PENSTOCK_CHECK_OK(finish_all());
  ring_.clear();
  PENSTOCK_TRY(auto frame, make_frame(seed));
  ring_.push_back(std::move(frame));
  return connect();
}

Status Chain::bind(std::uint64_t cache_bytes) {
  PENSTOCK_CHECK_OK(use_seed(0));
  std::uint64_t bytes = 0;
  for (const auto& [name, value] : ring_.front()) bytes += value.bytes();
  const std::uint64_t wanted = bytes == 0 ? kFewestFrames : cache_bytes / bytes + 1;
  // The same values in other memory: what is timed does not hang on them, and copies are quick.
  const auto count = std::clamp<std::uint64_t>(wanted, kFewestFrames, kMostFrames);
  while (ring_.size() < count) {
    Frame copy;
    if (memory_) {
      PENSTOCK_TRY(copy, make_frame(0));
    } else {
      for (const auto& [name, value] : ring_.front()) copy.emplace(name, value.clone());
    }
    ring_.push_back(std::move(copy));
  }
  PENSTOCK_CHECK_OK(connect());
  PENSTOCK_CHECK_OK(run());
  keep_buffers();
  return {};
}

void Chain::keep_buffers() {
  if (memory_) return;  // They have theirs.
  std::set<std::string> symbols;
  for (const auto& link : links_) {
    for (const auto& port : link->executable->inputs()) {
      for (const auto& dim : port.type.dims) symbols.insert(dim.symbol);
    }
  }
  for (auto& link : links_) {
    for (auto& lane : link->lanes) {
      // Other lanes have not run: the shapes are those of the first.
      const auto& made = link->lanes.front().values;
      lane.unbound.clear();
      for (std::size_t i = 0; i < lane.values.size(); ++i) {
        if (made[i].kind() == Tensor::Kind::kDense &&
            follows(link->executable->outputs()[i].type, symbols)) {
          lane.values[i] = Tensor::allocate(made[i].dtype(), made[i].dims());
        } else {
          lane.unbound.push_back(i);
        }
      }
    }
  }
}

std::size_t Chain::next_frame() {
  return std::exchange(next_, (next_ + 1) % ring_.size());
}

Status Chain::start(Link& link, Lane& lane, std::size_t frame) {
  for (const auto i : lane.unbound) lane.values[i] = Tensor();
  auto started = lane.context->run({}, link.inputs[frame], lane.outputs);
  lane.busy = static_cast<bool>(started);
  return started ? Status() : Status(std::move(started).error().within(link.name));
}

Status Chain::finish(Link& link, Lane& lane) {
  if (!std::exchange(lane.busy, false)) return {};
  auto ended = lane.context->wait(backend::kNoDeadline);
  return ended ? Status() : Status(std::move(ended).error().within(link.name));
}

Status Chain::finish_all() {
  Status first;
  for (auto& link : links_) {
    for (auto& lane : link->lanes) {
      if (auto ended = finish(*link, lane); !ended && first) first = std::move(ended);
    }
  }
  return first;
}

Status Chain::run() {
  PENSTOCK_CHECK_OK(finish_all());
  const std::size_t frame = next_frame();
  for (auto& link : links_) {
    PENSTOCK_CHECK_OK(start(*link, link->lanes.front(), frame));
    PENSTOCK_CHECK_OK(finish(*link, link->lanes.front()));
  }
  return {};
}

Status Chain::run_all_lanes() {
  if (lanes() == 1) return run();
  auto& link = *links_.front();
  for (auto& lane : link.lanes) {
    PENSTOCK_CHECK_OK(finish(link, lane));
    PENSTOCK_CHECK_OK(start(link, lane, next_frame()));
  }
  return {};
}

Result<std::vector<std::pair<std::string, Tensor>>> Chain::outputs() const {
  std::vector<std::pair<std::string, Tensor>> all;
  for (const auto& link : links_) {
    const auto& values = link->lanes.front().values;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto& value = values[i];
      Tensor here =
          value.in_host_memory() ? value.clone() : Tensor::allocate(value.dtype(), value.dims());
      if (!value.in_host_memory() && value.bytes() > 0) {
        PENSTOCK_CHECK_OK(memory_->copy(value, here));
      }
      all.emplace_back(link->executable->outputs()[i].name, std::move(here));
    }
  }
  return all;
}

}  // namespace penstock::probe
