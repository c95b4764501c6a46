// Edges and their slots, states, stages, workers, and for each the cells that it waits for.
#include "penstock/pipeline/wiring.h"

#include <algorithm>
#include <bit>

#include "penstock/base/words.h"
#include "penstock/pipeline/capacity.h"
#include "penstock/pipeline/ports.h"
#include "penstock/pipeline/supported.h"
#include "penstock/pipeline/worker.h"
#include "penstock/ready/ready.h"
#include "penstock/tensor/npy.h"

namespace penstock::pipeline {
namespace {

void make_edges(State& state) {
  for (const auto& plan_edge : state.plan.edges) {
    std::vector<Type> types;
    for (const auto& name : plan_edge.tensors) types.push_back(state.plan.find_tensor(name)->type);
    const int capacity = choose_capacity(state.plan, plan_edge);
    state.edges.push_back(std::make_unique<Edge>(plan_edge, std::move(types), capacity,
                                                 edge_name(state.plan, plan_edge)));
    Edge* edge = state.edges.back().get();
    edge->on_drop = [&state](Edge& full, FrameNumber frame) {
      state.record(frame).fail(Outcome::kDropped, [&] {
        return full.was_full(Code::kAborted).within({Where::kFrame, frame});
      });
      state.let_out(frame, frame + 1);
    };
    if (edge->from == plan::kPipelineInput) state.input_edges.push_back(edge);
    if (!edge->to.empty() && edge->to.back() == plan::kPipelineOutput)
      state.output_edges.push_back(edge);
  }
}

// How many frames may be between push and release, and what follows from it.
void choose_window(State& state) {
  const bool lossy =
      std::ranges::any_of(state.edges, [](const auto& edge) { return edge->lossy(); });
  FrameNumber limit = kLossyWindow;
  if (!lossy) {
    // The last stage must never wait for the caller: then one thread can push and pop in turn.
    for (const Edge* edge : state.output_edges)
      limit = std::min(limit, static_cast<FrameNumber>(edge->capacity()));
  }
  if (state.options.in_flight > 0)
    limit = std::min(limit, static_cast<FrameNumber>(state.options.in_flight));
  state.in_flight_limit = limit;
  const auto batch = static_cast<FrameNumber>(choose_wake_batch(state.plan));
  state.wake_batch = std::clamp<FrameNumber>(batch, 1, std::max<FrameNumber>(limit / 2, 1));
  const std::size_t window = std::bit_ceil(limit);
  state.window_mask = window - 1;
  state.records = std::vector<Record>(window);
  state.source_ready_ns.assign(window, 0);
  state.source.configure(window, true);
  state.sink.configure(window, false);
}

// Once the stages are known, whose backends say where their tensors lie.
Status allocate_edges(State& state) {
  for (std::size_t e = 0; e < state.edges.size(); ++e) {
    const auto& edge = state.plan.edges[e];
    const auto keepers = keepers_of(state.plan, edge, state.memories);
    state.edges[e]->place(memories_of(state.plan, edge, state.memories), keepers.size());
    PENSTOCK_CHECK_OK(state.edges[e]->allocate(
        edge.from != plan::kPipelineInput, spare_slots(state.plan, edge, state.memories),
        state.window_mask + 1, kept_slots(edge, state.options),
        most_together(state.plan, edge) > 1));
    for (const int keeper : keepers) {
      state.stages[static_cast<std::size_t>(keeper)]->kept_for.push_back(state.edges[e].get());
    }
  }
  state.loans.configure(state.output_edges, state.sink, state.window_mask + 1,
                        state.in_flight_limit, state.options.max_held);
  return {};
}

Result<std::vector<Tensor>> default_parameters(const State& state,
                                               const std::filesystem::path& folder,
                                               const plan::Stage& stage) {
  std::vector<Tensor> values;
  for (const auto& name : stage.parameters) {
    const auto info = std::ranges::find(state.plan.parameters, name, &plan::Parameter::name);
    PENSTOCK_TRY(Tensor value, read_npy(folder / info->file));
    values.push_back(std::move(value));
  }
  return values;
}

Status make_states(State& state, const std::filesystem::path& folder) {
  for (const auto& edge : state.plan.states) {
    PENSTOCK_TRY(const auto initial, plan::initial_value(state.plan, folder, edge));
    state.states.push_back(std::make_unique<StateEdge>(
        edge.from, edge.to, state.plan.find_tensor(edge.from)->type, initial,
        static_cast<std::size_t>(state.plan.streams.most), state_versions(state.plan, edge),
        state.window_mask + 1, memory_of(state.plan, edge, state.memories)));
  }
  return {};
}

std::vector<MemoryPtr> own_memories_of(const std::vector<MemoryPtr>& all) {
  std::vector<MemoryPtr> own;
  for (const auto& memory : all) {
    if (!memory || memory->reaches_host()) continue;
    const auto is_same = [&](const auto& other) { return same_memory(other.get(), memory.get()); };
    if (std::ranges::none_of(own, is_same)) own.push_back(memory);
  }
  return own;
}

Result<std::vector<std::vector<Tensor>>> copied_to_each(const std::vector<MemoryPtr>& memories,
                                                        const std::vector<Tensor>& values) {
  std::vector<std::vector<Tensor>> copies;
  for (const auto& memory : memories) {
    auto& there = copies.emplace_back();
    for (const auto& value : values) {
      PENSTOCK_TRY(Tensor copy, copied_to(memory.get(), value));
      there.push_back(std::move(copy));
    }
  }
  return copies;
}

Status check_memories(const Stage& stage) {
  for (const auto& memory : stage.memories) {
    if (memory && !memory->reaches_host()) PENSTOCK_CHECK_OK(check_supported(stage, *memory));
  }
  return {};
}

// Whether frames of a lost device go to other instances, go once more to a server that broke their
// stream off, or come back to be made again, or behind those that were. A function is never run
// again, and where each stream has a replica of its own, its states are there.
void configure_returns(Stage& stage, std::size_t window) {
  const auto may_be_lost = [](const device::Device& place) { return !place.is_local_cpu(); };
  const auto& partition = *stage.partitions.front().plan;
  const bool somewhere = stage.places.size() > 1 || (partition.served && partition.idempotent);
  const bool runs_again =
      somewhere && !stage.may_drop && std::ranges::any_of(stage.places, may_be_lost);
  const bool comes_back =
      !stage.lossable_in.empty() || std::ranges::any_of(stage.out_edges, &Edge::may_lose);
  if (stage.has_homes || !(runs_again || comes_back)) return;
  constexpr std::size_t kMostTries = 255;
  const std::size_t tries = runs_again ? std::min(stage.places.size() + 1, kMostTries) : 0;
  stage.returns.configure(window, stage.out_edges.size(), static_cast<std::uint8_t>(tries));
  stage.in_turn = !stage.states_in.empty() || !stage.states_out.empty();
}

// Of one frame on one edge: where its readers never get what was made, they end.
constexpr std::uint8_t kMostRemakes = 8;

// Which frames may share a call, where shapes are open.
void keep_shapes(State& state) {
  for (auto& stage : state.stages) {
    if (stage->batch_sizes.empty() || !stage->plan->each.empty()) continue;
    std::ranges::copy_if(stage->in_edges, std::back_inserter(stage->shaped_in),
                         &Edge::has_open_shapes);
    for (Edge* edge : stage->shaped_in) edge->keep_shapes(state.window_mask + 1);
  }
  for (auto& stage : state.stages) {
    std::ranges::copy_if(stage->out_edges, std::back_inserter(stage->shaped_out),
                         &Edge::keeps_shapes);
  }
}

// Once it is known where the edges' tensors lie.
void configure_progress(State& state) {
  const std::size_t window = state.window_mask + 1;
  for (auto& stage : state.stages) {
    std::ranges::copy_if(stage->in_edges, std::back_inserter(stage->lossable_in), &Edge::may_lose);
    configure_returns(*stage, window);
    stage->progress.configure(window, stage->places.size() == 1 && !stage->returns.enabled());
    std::ranges::copy_if(stage->out_edges, std::back_inserter(stage->kept_out), &Edge::lets_go);
    for (Edge* edge : stage->out_edges) {
      if (!edge->may_lose()) continue;
      edge->remakes.configure(*edge, stage->returns, window, edge->to.size(), kMostRemakes);
    }
  }
}

// Who may be asked for what until when: a stage stays until those are through that may ask it.
void connect_makers(State& state) {
  for (std::size_t e = 0; e < state.edges.size(); ++e) {
    if (!state.edges[e]->may_lose()) continue;
    auto& maker = *state.stages[static_cast<std::size_t>(state.edges[e]->from)];
    for (auto& stage : state.stages) {
      const bool asks =
          std::ranges::find(stage->kept_for, state.edges[e].get()) != stage->kept_for.end();
      if (!asks || std::ranges::find(maker.askers, stage.get()) != maker.askers.end()) continue;
      maker.askers.push_back(stage.get());
      stage->makers.push_back(&maker);
    }
  }
}

Result<std::unique_ptr<Stage>> make_stage(State& state, std::size_t index,
                                          const std::filesystem::path& folder,
                                          const backend::Registry& backends,
                                          const std::shared_ptr<backend::Backend>& functions) {
  auto stage = std::make_unique<Stage>();
  stage->plan = &state.plan.stages[index];
  stage->index = index;
  stage->places = places_of(*stage->plan);
  for (auto& edge : state.edges) {
    if (edge->from == static_cast<int>(index)) stage->out_edges.push_back(edge.get());
    if (std::ranges::find(edge->to, static_cast<int>(index)) != edge->to.end())
      stage->in_edges.push_back(edge.get());
  }
  stage->kept_for = stage->in_edges;
  std::ranges::copy_if(stage->in_edges, std::back_inserter(stage->lossy_in), &Edge::lossy);
  std::ranges::copy_if(stage->out_edges, std::back_inserter(stage->lossy_out), &Edge::lossy);
  for (const auto& partition : stage->plan->partitions) {
    CompiledPartition compiled;
    compiled.plan = &partition;
    if (partition.backend == plan::kFunctionBackend) {
      compiled.backend = functions;
      stage->may_drop = true;
    } else {
      PENSTOCK_TRY(compiled.backend, backends.find(partition.backend));
    }
    if (std::ranges::any_of(stage->places, &device::Device::is_remote)) {
      PENSTOCK_TRY(compiled.remote, backends.find(plan::kRemoteBackend));
    }
    stage->partitions.push_back(std::move(compiled));
  }
  for (auto& edge : state.states) {
    if (std::ranges::find(stage->plan->inputs, edge->to) != stage->plan->inputs.end())
      stage->states_in.push_back(edge.get());
    if (std::ranges::find(stage->plan->outputs, edge->from) != stage->plan->outputs.end())
      stage->states_out.push_back(edge.get());
  }
  find_state_sources(state.plan, *stage);
  PENSTOCK_TRY(stage->batch_sizes, batch_sizes(*stage->plan));
  const int number = static_cast<int>(index);
  const auto waiting = most_waiting(state.plan, number, state.in_flight_limit);
  stage->most_waiting = waiting.come;
  stage->most_kept = waiting.kept;
  if (one_of_each_stream(state.plan, number)) {
    stage->most_streams = static_cast<FrameNumber>(state.plan.streams.most);
  }
  stage->has_homes = has_homes(state.plan, *stage->plan);
  stage->able.store(static_cast<int>(stage->plan->devices.size()), std::memory_order_relaxed);
  stage->able_standbys.store(static_cast<int>(stage->plan->standby.size()),
                             std::memory_order_relaxed);
  stage->memories = state.memories[index];
  stage->own_memories = own_memories_of(stage->memories);
  PENSTOCK_CHECK_OK(check_memories(*stage));
  if (!stage->plan->parameters.empty()) {
    auto version = std::make_shared<ParameterVersion>();
    PENSTOCK_TRY(version->values, default_parameters(state, folder, *stage->plan));
    version->given.assign(version->values.size(), false);
    PENSTOCK_TRY(version->elsewhere, copied_to_each(stage->own_memories, version->values));
    stage->versions.push_back(std::move(version));
  }
  stage->ready_ns.assign(state.window_mask + 1, 0);
  stage->computed.assign(state.window_mask + 1, 0);
  return stage;
}

// Last to first, as readers stand behind. What a lossy edge dropped is not there to be computed.
void mark_stages_that_feed_states(State& state) {
  const auto reads_of_state = [&](const Edge* edge) {
    return std::ranges::any_of(edge->to, [&](int to) {
      return to >= 0 && state.stages[static_cast<std::size_t>(to)]->feeds_state;
    });
  };
  for (auto stage = state.stages.rbegin(); stage != state.stages.rend(); ++stage) {
    auto& made = **stage;
    made.feeds_state =
        (!made.states_out.empty() || std::ranges::any_of(made.out_edges, reads_of_state)) &&
        std::ranges::none_of(made.in_edges, &Edge::lossy);
  }
}

// Waiters of which each has frames of its own, so that one is not woken in another's place.
std::vector<Progress::Cell*> add_each(Progress& progress, const std::vector<Parker*>& parkers) {
  std::vector<Progress::Cell*> cells;
  for (Parker* parker : parkers) cells.push_back(progress.add_waiters({parker}).front());
  return cells;
}

std::size_t index_of(const State& state, const Edge* edge) {
  return static_cast<std::size_t>(
      std::ranges::find(state.edges, edge, &std::unique_ptr<Edge>::get) - state.edges.begin());
}

Stage* stage_of(State& state, int number) {
  return number < 0 ? nullptr : state.stages[static_cast<std::size_t>(number)].get();
}

std::vector<Worker*> workers_of(const State& state, const Stage& stage) {
  std::vector<Worker*> found;
  for (const auto& worker : state.workers) {
    if (&worker->stage() == &stage) found.push_back(worker.get());
  }
  return found;
}

Wait wait_alone(Progress& progress, Parker& parker, const std::atomic<std::int64_t>* period) {
  return {&progress, progress.add_waiters({&parker}).front(), period, 0};
}

bool reads(const Stage& stage, const Edge* edge) {
  return std::ranges::find(stage.in_edges, edge) != stage.in_edges.end();
}

// The workers stay less than `room` frames ahead of `progress`.
void wait_for_room(const std::vector<Worker*>& workers, Progress& progress,
                   const std::atomic<std::int64_t>* period, FrameNumber room) {
  for (Worker* worker : workers) {
    worker->instance.rooms.push_back({wait_alone(progress, worker->instance.parker, period), room});
  }
}

void wait_for_producers(State& state, Stage& stage, const std::vector<Worker*>& workers) {
  std::vector<int> producers;
  for (const Edge* edge : stage.in_edges) producers.push_back(edge->from);
  if (producers.empty()) producers.push_back(plan::kPipelineInput);
  std::ranges::sort(producers);
  producers.erase(std::ranges::unique(producers).begin(), producers.end());
  std::vector<Parker*> parkers;
  for (Worker* worker : workers) {
    parkers.push_back(&worker->instance.parker);
    stage.returns.add(worker->instance.parker);
  }
  for (const int producer : producers) {
    Stage* from = stage_of(state, producer);
    Progress& progress = from == nullptr ? state.source : from->progress;
    stage.producer_ready_ns.push_back(from == nullptr ? &state.source_ready_ns : &from->ready_ns);
    if (from != nullptr) stage.stages_before.push_back(from);
    const auto cells =
        stage.has_homes ? add_each(progress, parkers) : progress.add_waiters(parkers);
    for (std::size_t w = 0; w < workers.size(); ++w) {
      workers[w]->instance.inputs.push_back(
          {&progress, cells[w], from == nullptr ? nullptr : &from->period_ns, 0});
    }
  }
}

// The caller's inputs have slots again once the stage is done with them.
void let_pusher_wait(State& state, Stage& stage) {
  for (const Edge* edge : stage.kept_for) {
    if (edge->from != plan::kPipelineInput) continue;
    if (!reads(stage, edge) && edge->lossy()) continue;
    state.pusher.waits.push_back(wait_alone(stage.progress, state.pusher.parker, &stage.period_ns));
    const auto room =
        reads(stage, edge) ? static_cast<FrameNumber>(edge->capacity()) : edge->places();
    state.input_capacities.push_back(edge->lossy() ? 0 : room);
  }
}

void wait_for_readers(State& state, const Stage& stage, const std::vector<Worker*>& workers) {
  for (const Edge* edge : stage.out_edges) {
    for (const int to : edge->to) {
      if (edge->lossy()) continue;
      Stage* reader = stage_of(state, to);
      wait_for_room(workers, reader == nullptr ? state.sink : reader->progress,
                    reader == nullptr ? nullptr : &reader->period_ns,
                    static_cast<FrameNumber>(edge->capacity()));
    }
  }
}

// Of edges whose frames are kept: who writes one waits for the slot, and who reads one that may
// drop frames keeps no more than have one.
void wait_for_keepers(State& state, const Stage& stage, const std::vector<Worker*>& workers) {
  for (auto& keeper : state.stages) {
    for (const Edge* edge : keeper->kept_for) {
      if (reads(*keeper, edge)) continue;
      const bool writes = edge->from == static_cast<int>(stage.index);
      if (writes && !edge->lossy()) {
        wait_for_room(workers, keeper->progress, &keeper->period_ns, edge->places());
      } else if (edge->lossy() && reads(stage, edge)) {
        wait_for_room(workers, keeper->progress, &keeper->period_ns,
                      static_cast<FrameNumber>(keeping_slots(
                          state.plan, state.plan.edges[index_of(state, edge)], state.memories)));
      }
    }
  }
}

// Who reads a state waits for its writer, who in turn keeps the versions that are still read.
void wait_for_states(State& state, Stage& stage, const std::vector<Worker*>& workers) {
  for (const StateEdge* edge : stage.states_in) {
    for (auto& writer : state.stages) {
      const auto& written = writer->states_out;
      if (writer.get() == &stage || std::ranges::find(written, edge) == written.end()) continue;
      for (Worker* worker : workers) {
        worker->instance.states.push_back(
            wait_alone(writer->progress, worker->instance.parker, &writer->period_ns));
      }
      if (edge->versions < StateEdge::kVersionsBehind) continue;
      wait_for_room(workers_of(state, *writer), stage.progress, &stage.period_ns,
                    StateEdge::kVersionsBehind - 1);
    }
  }
}

void let_popper_wait(State& state, Stage& stage) {
  const bool feeds_output = std::ranges::any_of(
      stage.out_edges, [](const Edge* e) { return e->to.back() == plan::kPipelineOutput; });
  if (!feeds_output && !stage.out_edges.empty()) return;
  state.popper.waits.push_back(wait_alone(stage.progress, state.popper.parker, &stage.period_ns));
  state.drainer.waits.push_back(wait_alone(stage.progress, state.drainer.parker, &stage.period_ns));
}

// Who waits for whom. After this no Progress, cell or wait changes its place.
void connect_waits(State& state) {
  state.pusher.waits.push_back(wait_alone(state.sink, state.pusher.parker, nullptr));
  for (auto& stage : state.stages) {
    const auto workers = workers_of(state, *stage);
    wait_for_producers(state, *stage, workers);
    let_pusher_wait(state, *stage);
    wait_for_readers(state, *stage, workers);
    wait_for_keepers(state, *stage, workers);
    wait_for_states(state, *stage, workers);
    let_popper_wait(state, *stage);
  }
}

// The caller reads an input that is an output as well: its slot is free when the result is
// released.
void connect_inputs_that_leave(State& state) {
  for (const Edge* edge : state.input_edges) {
    if (edge->lossy() || std::ranges::find(edge->to, plan::kPipelineOutput) == edge->to.end())
      continue;
    state.pusher.waits.push_back(
        {&state.sink, state.sink.add_waiters({&state.pusher.parker}).front(), nullptr, 0});
    state.input_capacities.push_back(static_cast<FrameNumber>(edge->capacity()));
  }
}

void place_inputs_and_outputs(State& state) {
  const auto place_of = [&](const std::string& name) {
    for (auto& edge : state.edges) {
      const auto found = std::ranges::find(edge->tensors, name);
      if (found != edge->tensors.end())
        return Place{edge.get(), static_cast<std::size_t>(found - edge->tensors.begin())};
    }
    return Place{};
  };
  for (const auto& input : state.plan.inputs) state.input_places.push_back(place_of(input.name));
  for (const auto& output : state.plan.outputs)
    state.output_places.push_back(place_of(output.name));
  state.acquired.resize(state.plan.inputs.size());
}

}  // namespace

Status wire(State& state, const std::filesystem::path& folder, const backend::Registry& backends) {
  const auto functions = std::make_shared<function::FunctionBackend>(
      state.options.functions, state.options.native_code, &ready::make);
  state.streams = std::make_shared<Streams>(state.plan.streams);
  PENSTOCK_TRY(state.bound, plan::read_bound_values(state.plan, folder));
  make_edges(state);
  choose_window(state);
  PENSTOCK_CHECK_OK(make_states(state, folder));
  for (std::size_t i = 0; i < state.plan.stages.size(); ++i) {
    auto stage = make_stage(state, i, folder, backends, functions);
    if (!stage) {
      return std::move(stage).error().within({Where::kStage, state.plan.stages[i].name});
    }
    state.stages.push_back(*std::move(stage));
  }
  for (auto& edge : state.states) {
    if (Status made = edge->allocate(); !made) {
      return std::move(made).error().within(concat("state '", edge->to, "'"));
    }
  }
  PENSTOCK_CHECK_OK(allocate_edges(state));
  keep_shapes(state);
  configure_progress(state);
  connect_makers(state);
  for (auto& stage : state.stages) {
    for (std::size_t r = 0; r < stage->places.size(); ++r) {
      state.workers.push_back(std::make_unique<Worker>(state, *stage, r));
      if (stage->plan->batch.wait.count() > 0) state.fillers.push_back(state.workers.back().get());
    }
  }
  mark_stages_that_feed_states(state);
  connect_waits(state);
  connect_inputs_that_leave(state);
  place_inputs_and_outputs(state);
  return {};
}

}  // namespace penstock::pipeline
