// Dynamic programming over places and devices used, replaying each state; orders drawn by number.
#include "penstock/planner/latency/latency_orders.h"

#include <algorithm>

#include "penstock/planner/problem/index.h"
#include "penstock/planner/search/random.h"

namespace penstock::planner {
namespace {

class OrderLine {
 public:
  OrderLine(const LatencyModel& model, const std::vector<int>& order)
      : model_(model),
        order_(order),
        place_(at(model.groups)),
        last_reader_(at(model.groups), -1),
        tail_(at(model.groups), 0),
        rest_(at(model.blocks) + 1, 0),
        end_(at(model.groups), 0),
        running_(at(model.blocks) + 1, 0),
        seen_(at(model.values), 0),
        outside_(at(model.values), 0),
        in_set_(at(model.set_blocks.size()), 0),
        states_((at(model.blocks) + 1) * at(model.codes)) {
    for (int i = 0; i < model.blocks; ++i) {
      for (const int g : model.members[order[at(i)]]) place_[at(g)] = i;
    }
    put_tails();
  }

  std::vector<LatencyStep> run(const Budget& budget) {
    states_.front().key = 0;
    for (int i = 0; i < model_.blocks; ++i) {
      for (int code = 0; code < model_.codes; ++code) {
        if (states_[at(i, model_.codes, code)].key == kInfinite) continue;
        if (budget.over()) return {};
        replay(i, code);
        step_on_core(i, code);
        for (std::size_t m = 0; m < model_.calls.size(); ++m) {
          const auto& call = model_.calls[m];
          if (!model_.has_left(code, call.pool) || !device_left(call.type)) continue;
          extend_call(i, code, static_cast<int>(m));
        }
      }
    }
    int best = 0;
    const auto key = [&](int code) { return states_[at(model_.blocks, model_.codes, code)].key; };
    for (int code = 1; code < model_.codes; ++code) {
      if (key(code) < key(best)) best = code;
    }
    return key(best) == kInfinite ? std::vector<LatencyStep>() : steps_to(model_.blocks, best);
  }

 private:
  struct State {
    double key = kInfinite;  // When everything might end.
    int from = 0, code = 0, call = -1;
  };

  void put_tails() {
    for (int i = model_.blocks - 1; i >= 0; --i) {
      const auto members = model_.members[order_[at(i)]];
      rest_[at(i)] = rest_[at(i) + 1];
      for (auto g = members.rbegin(); g != members.rend(); ++g) {
        for (const int later : model_.follows[*g]) {
          last_reader_[at(*g)] = std::max(last_reader_[at(*g)], place_[at(later)]);
        }
        for (const int later : model_.later[*g]) {
          const double from_there = tail_[at(later)] + model_.least_time(later);
          tail_[at(*g)] = std::max(tail_[at(*g)], from_there);
        }
        rest_[at(i)] = std::max(rest_[at(i)], tail_[at(*g)] + model_.least_time(*g));
      }
    }
  }

  [[nodiscard]] std::vector<LatencyStep> steps_to(int place, int code) const {
    std::vector<LatencyStep> steps;
    while (place > 0) {
      const auto& state = states_[at(place, model_.codes, code)];
      steps.push_back({{order_.begin() + state.from, order_.begin() + place}, state.call});
      place = state.from;
      code = state.code;
    }
    std::ranges::reverse(steps);
    return steps;
  }

  /// Ends of all groups before `place`, and what they leave running.
  void replay(int place, int code) {
    calls_of_type_.assign(at(model_.types), 0);
    done_ = 0;
    int from = 0;
    for (const auto& step : steps_to(place, code)) {
      const int to = from + static_cast<int>(step.blocks.size());
      if (step.call < 0) {
        run_on_core(from);
      } else {
        run_call(from, to, model_.calls[at(step.call)]);
      }
      from = to;
    }
    std::ranges::fill(running_, done_);
    for (int i = 0; i < place; ++i) {
      for (const int g : model_.members[order_[at(i)]]) {
        if (last_reader_[at(g)] < place) continue;
        double& running = running_[at(last_reader_[at(g)])];
        running = std::max(running, end_[at(g)] + tail_[at(g)]);
      }
    }
    for (int i = model_.blocks - 1; i >= 0; --i) {
      running_[at(i)] = std::max(running_[at(i)], running_[at(i) + 1]);
    }
  }

  /// When the last of the block's groups might let everything end; kInfinite where none may be
  /// there.
  double run_on_core(int place) {
    double key = 0;
    for (const int g : model_.members[order_[at(place)]]) {
      double start = 0;
      for (const int other : model_.earlier[g]) start = std::max(start, end_[at(other)]);
      for (const int v : model_.reads[g]) {
        const int producer = model_.producer[at(v)];
        if (place_[at(producer)] < place) start = std::max(start, end_[at(producer)]);
      }
      end_[at(g)] = start + model_.core_time[at(g)];
      done_ = std::max(done_, end_[at(g)]);
      key = std::max(key, end_[at(g)] + tail_[at(g)]);
    }
    return key;
  }

  /// A call over the order's places from .. as it grows.
  struct Call {
    double start = 0, compute = 0, in = 0, out = 0, memory = 0;
  };

  void grow(Call& call, const LatencyModel::CallMode& mode, int from, int place) {
    const auto members = model_.members[order_[at(place)]];
    for (const int g : members) {
      call.compute += mode.time[at(g)];
      call.memory += model_.memory[at(g)];
      for (const int v : model_.writes[g]) {
        outside_[at(v)] = static_cast<int>(model_.consumers[v].size());
        if (outside_[at(v)] > 0) call.out += model_.send[at(v, model_.types, mode.type)];
      }
    }
    for (const int g : members) {
      for (const int other : model_.earlier[g]) {
        if (place_[at(other)] < from) call.start = std::max(call.start, end_[at(other)]);
      }
      for (const int v : model_.reads[g]) {
        const int producer = model_.producer[at(v)];
        const bool inside = place_[at(producer)] >= from && place_[at(producer)] <= place;
        if (inside) {
          if (--outside_[at(v)] == 0) call.out -= model_.send[at(v, model_.types, mode.type)];
        } else if (std::exchange(seen_[at(v)], mark_) != mark_) {
          call.in += model_.receive[at(v, model_.types, mode.type)];
          if (place_[at(producer)] < from) call.start = std::max(call.start, end_[at(producer)]);
        }
      }
    }
  }

  void run_call(int from, int to, const LatencyModel::CallMode& mode) {
    ++mark_;
    Call call{.compute = mode.launch};
    for (int i = from; i < to; ++i) grow(call, mode, from, i);
    const double end = call.start + call.compute + call.in + call.out;
    for (int i = from; i < to; ++i) {
      for (const int g : model_.members[order_[at(i)]]) end_[at(g)] = end;
    }
    done_ = std::max(done_, end);
    ++calls_of_type_[at(mode.type)];
  }

  void offer(int place, int code, State state) {
    auto& best = states_[at(place, model_.codes, code)];
    if (state.key < best.key) best = state;
  }

  void step_on_core(int place, int code) {
    const double done = done_;
    const double key = std::max(run_on_core(place), running_[at(place) + 1]);
    done_ = done;
    offer(place + 1, code, {key, place, code, -1});
  }

  [[nodiscard]] bool device_left(int type) const {
    int count = 0;
    for (const auto& call : model_.calls) {
      if (call.type == type) count = call.devices;
    }
    return calls_of_type_[at(type)] < count;
  }

  void extend_call(int from, int code, int number) {
    const auto& mode = model_.calls[at(number)];
    const int code_after = code + model_.pools[at(mode.pool)].stride;
    ++mark_;
    std::ranges::fill(in_set_, 0);
    int open_sets = 0;
    Call call{.compute = mode.launch};
    for (int i = from; i < model_.blocks; ++i) {
      grow(call, mode, from, i);
      if (call.memory > mode.memory * (1 + 1e-9) || call.compute == kInfinite) return;
      if (const int set = model_.set_of[at(order_[at(i)])]; set >= 0) {
        if (in_set_[at(set)]++ == 0) ++open_sets;
        if (in_set_[at(set)] == static_cast<int>(model_.set_blocks[set].size())) --open_sets;
      }
      if (open_sets > 0) continue;
      const double end = call.start + call.compute + call.in + call.out;
      const double key = std::max(running_[at(i) + 1], end + rest_[at(i) + 1]);
      offer(i + 1, code_after, {key, from, code, number});
    }
  }

  const LatencyModel& model_;
  const std::vector<int>& order_;
  std::vector<int> place_, last_reader_;  // [group]
  std::vector<double> tail_;              // [group] Least time from its end to the frame's.
  std::vector<double> rest_;              // [place] Least time of what stands there or later.
  // Of the state that is extended.
  std::vector<double> end_;      // [group]
  std::vector<double> running_;  // [place] When all before might end that something there awaits.
  std::vector<int> calls_of_type_;
  double done_ = 0;
  // Of the call that grows.
  std::vector<int> seen_, outside_;  // [value]
  std::vector<int> in_set_;          // [set]
  int mark_ = 0;
  std::vector<State> states_;  // [place * codes + code]
};

}  // namespace

std::vector<int> latency_order(const LatencyModel& model, std::uint64_t number) {
  Random random(number);
  const bool backward = (number & 1U) != 0, at_random = (number & 2U) != 0;
  const auto& before = backward ? model.after : model.before;
  const auto& after = backward ? model.before : model.after;
  std::vector<int> missing, ready, order;
  const auto append_shuffled = [&](std::vector<int> blocks) {
    for (std::size_t i = blocks.size(); i > 1; --i) {
      std::swap(blocks[i - 1], blocks[at(random.below(static_cast<int>(i)))]);
    }
    ready.insert(ready.end(), blocks.begin(), blocks.end());
  };
  std::vector<int> first;
  for (int b = 0; b < model.blocks; ++b) {
    missing.push_back(static_cast<int>(before[b].size()));
    if (missing.back() == 0) first.push_back(b);
  }
  append_shuffled(std::move(first));
  while (!ready.empty()) {
    const int last = static_cast<int>(ready.size()) - 1;
    const int pick = at_random ? random.below(last + 1) : last;
    const int block = ready[at(pick)];
    ready.erase(ready.begin() + pick);
    order.push_back(block);
    std::vector<int> next;
    for (const int b : after[block]) {
      if (--missing[at(b)] == 0) next.push_back(b);
    }
    append_shuffled(std::move(next));
  }
  if (backward) std::ranges::reverse(order);
  return order;
}

std::vector<LatencyStep> plan_along(const LatencyModel& model, const std::vector<int>& order,
                                    const Budget& budget) {
  return OrderLine(model, order).run(budget);
}

}  // namespace penstock::planner
