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

Status Chain::add_link(const backend::Registry& backends, const cost::JobModel& model,
                       const std::vector<int>& cpus) {
  PENSTOCK_TRY(const auto backend, backends.find(model.backend));
  backend::CompileRequest request;
  request.name = model.name;
  request.file = model.file;
  request.device.cpus = cpus;
  request.threads = job_.threads;
  request.optimize = model.optimize;
  request.flush_denormals = job_.flush_denormals;
  request.precision = model.precision;
  request.options = model.options;
  request.custom_ops = model.custom_ops;
  auto link = std::make_unique<Link>();
  link->name = model.name;
  PENSTOCK_TRY(link->executable, backend->compile(request));
  PENSTOCK_TRY(link->context, link->executable->create_context());
  link->values.resize(link->executable->outputs().size());
  for (auto& value : link->values) link->outputs.push_back(&value);
  for (std::size_t i = 0; i < link->values.size(); ++i) link->unbound.push_back(i);
  links_.push_back(std::move(link));
  return {};
}

const Tensor* Chain::find_made(const std::string& name, std::size_t before) const {
  for (std::size_t l = 0; l < before; ++l) {
    const auto ports = links_[l]->executable->outputs();
    const auto found = std::ranges::find(ports, name, &backend::Port::name);
    if (found != ports.end())
      return links_[l]->outputs[static_cast<std::size_t>(found - ports.begin())];
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
      frame.emplace(port.name, *std::move(value));
    }
  }
  return frame;
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
    for (const auto& [name, value] : ring_.front()) copy.emplace(name, value.clone());
    ring_.push_back(std::move(copy));
  }
  PENSTOCK_CHECK_OK(connect());
  PENSTOCK_CHECK_OK(run());
  keep_buffers();
  return {};
}

void Chain::keep_buffers() {
  std::set<std::string> symbols;
  for (const auto& link : links_) {
    for (const auto& port : link->executable->inputs()) {
      for (const auto& dim : port.type.dims) symbols.insert(dim.symbol);
    }
  }
  for (auto& link : links_) {
    link->unbound.clear();
    for (std::size_t i = 0; i < link->values.size(); ++i) {
      Tensor& value = link->values[i];
      if (value.kind() == Tensor::Kind::kDense &&
          follows(link->executable->outputs()[i].type, symbols)) {
        value = Tensor::allocate(value.dtype(), value.dims());
      } else {
        link->unbound.push_back(i);
      }
    }
  }
}

Status Chain::run() {
  const std::size_t frame = next_;
  next_ = (next_ + 1) % ring_.size();
  for (auto& link : links_) {
    for (const auto i : link->unbound) link->values[i] = Tensor();
    auto done = link->context->run({}, link->inputs[frame], link->outputs);
    if (done) done = link->context->wait(backend::kNoDeadline);
    if (!done) return std::move(done).error().within(link->name);
  }
  return {};
}

std::vector<std::pair<std::string, const Tensor*>> Chain::outputs() const {
  std::vector<std::pair<std::string, const Tensor*>> all;
  for (const auto& link : links_) {
    for (std::size_t i = 0; i < link->values.size(); ++i) {
      all.emplace_back(link->executable->outputs()[i].name, &link->values[i]);
    }
  }
  return all;
}

}  // namespace penstock::probe
