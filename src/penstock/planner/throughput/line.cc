// Prefix sums along the order, transfers pin by pin, and a proof of which starts need no trial.
#include "penstock/planner/throughput/line.h"

#include <algorithm>
#include <utility>

namespace penstock::planner {
namespace {

/// For each place the first one, going left, from which on a value of at least `high[place]` in
/// `low` holds without a gap up to the place. (All nearest smaller values; Berkman et al., 1993.)
std::vector<int> unbroken_from(const std::vector<double>& low, const std::vector<double>& high) {
  std::vector<int> from(low.size()), stack;  // Places with ascending `low`.
  for (int place = 0; place < static_cast<int>(low.size()); ++place) {
    const auto smaller = std::ranges::lower_bound(stack, high[at(place)], {},
                                                  [&](int earlier) { return low[at(earlier)]; });
    from[at(place)] = smaller == stack.begin() ? 0 : *(smaller - 1) + 1;
    while (!stack.empty() && low[at(stack.back())] >= low[at(place)]) stack.pop_back();
    stack.push_back(place);
  }
  return from;
}

}  // namespace

Line::Line(const Model& model, LinearOrder order) : model_(&model), order_(std::move(order)) {
  const auto& instance = model.instance;
  const auto places = order_.size() + 1;
  sums_.assign(at(instance.modes), std::vector<double>(places, 0));
  unsupported_.assign(at(instance.modes), std::vector<int>(places, size()));
  memory_.assign(places, 0);
  for (int m = 0; m < instance.modes; ++m) {
    auto& sums = sums_[at(m)];
    auto& unsupported = unsupported_[at(m)];
    for (int i = 0; i < size(); ++i) {
      const double time = instance.time_of(order_[at(i)], m);
      sums[at(i) + 1] = sums[at(i)] + (time == kInfinite ? 0 : time);
    }
    for (int i = size() - 1; i >= 0; --i) {
      const bool supported = instance.time_of(order_[at(i)], m) < kInfinite;
      unsupported[at(i)] = supported ? unsupported[at(i) + 1] : i;
    }
  }
  for (int i = 0; i < size(); ++i) {
    memory_[at(i) + 1] = memory_[at(i)] + instance.memory[at(order_[at(i)])];
  }
  find_pins();
  sum_prices();
  find_covered();
}

void Line::find_pins() {
  const auto& instance = model_->instance;
  std::vector<int> place(order_.size());
  for (int i = 0; i < size(); ++i) place[at(order_[at(i)])] = i;
  std::vector<int> first(at(instance.values), size()), seen(at(instance.values), 0),
      previous(at(instance.values), -1);
  pins_begin_.push_back(0);
  for (int i = 0; i < size(); ++i) {
    for (const int v : instance.values_of[order_[at(i)]]) {
      first[at(v)] = std::min(first[at(v)], i);
      const int count = static_cast<int>(instance.pins[v].size());
      const bool last = ++seen[at(v)] == count;
      const int producer = place[at(instance.producer[at(v)])];
      pins_.push_back({v, previous[at(v)], first[at(v)], producer, last});
      if (previous[at(v)] >= 0 && previous[at(v)] != i - 1) adjacent_ = false;
      if (count > 2 || producer != first[at(v)]) adjacent_ = false;
      previous[at(v)] = i;
    }
    pins_begin_.push_back(static_cast<int>(pins_.size()));
  }
  if (model_->holds_transfers) adjacent_ = false;
  if (!adjacent_) return;
  cut_in_.assign(at(instance.types), std::vector<double>(order_.size() + 1, 0));
  cut_out_ = cut_in_;
  for (int t = 0; t < instance.types; ++t) {
    for (int i = 0; i < size(); ++i) {
      for (int p = pins_begin_[at(i)]; p < pins_begin_[at(i) + 1]; ++p) {
        const auto& pin = pins_[at(p)];
        if (!pin.last) continue;
        cut_in_[at(t)][at(i)] += instance.receive[at(pin.value, instance.types, t)];
        cut_out_[at(t)][at(i)] += instance.send[at(pin.value, instance.types, t)];
      }
    }
  }
}

/// What the pin at `place` changes in the cost of the cut before it, when that moves there from
/// behind it: what lies behind the cut receives what is produced before it, and sends the rest.
double Line::cut_change(const Pin& pin, int place, const Prices& prices) {
  const double receive = prices.receive[at(pin.value)], send = prices.send[at(pin.value)];
  const double was = pin.last ? 0 : pin.producer <= place ? receive : send;
  const double is = pin.first == place ? 0 : pin.producer < place ? receive : send;
  return is - was;
}

void Line::sum_prices() {
  for (const auto& prices : model_->prices) {
    std::vector<double> rest(order_.size() + 1, 0);
    double groups = 0, cut = 0;
    int lacking_until = 0;
    for (int i = size() - 1; i >= 0; --i) {
      const int group = order_[at(i)];
      groups += prices.group[at(group)];
      if (prices.lacks[at(group)] != 0) lacking_until = std::max(lacking_until, i + 1);
      for (int p = pins_begin_[at(i)]; p < pins_begin_[at(i) + 1]; ++p) {
        cut += cut_change(pins_[at(p)], i, prices);
      }
      rest[at(i)] = groups + std::max(0.0, cut);
    }
    rest_.push_back(std::move(rest));
    lacking_until_.push_back(lacking_until);
  }
}

/// Take a plan that starts a stage at e < j, and let its first stage that ends behind j start at j
/// instead (the ones before fall away). Of each value that stage may newly read one that starts in
/// [e', j) and crosses j, and no longer reads those that end there; it computes less. So its load
/// does not grow if, with C the cost of all values across a place, C(j) <= C(e') + compute(e', j)
/// for the serial load, C(j) <= C(e') for those that take a maximum; and this for every e' in [e,
/// j), for the stage may start at any of them. Values produced behind their first reader may turn
/// from sent to received: they count with their dearer cost at j and their cheaper one at e'.
void Line::find_covered() {
  const auto& instance = model_->instance;
  covered_from_.assign(order_.size() + 1, 0);
  std::vector<double> low(order_.size() + 1), high(order_.size() + 1);
  for (int m = 0; m < instance.modes; ++m) {
    const int t = instance.mode_type[at(m)];
    if (instance.type_count[at(t)] == 0) continue;
    const auto overlap = instance.type_overlap[at(t)];
    double crossing_low = 0, crossing_high = 0;
    bool backward = false;
    for (int i = 0; i <= size(); ++i) {
      const double done = overlap == Overlap::kSerial ? sums_[at(m)][at(i)] : 0;
      low[at(i)] = crossing_low - done;
      high[at(i)] = crossing_high - done;
      if (i == size()) break;
      for (int p = pins_begin_[at(i)]; p < pins_begin_[at(i) + 1]; ++p) {
        const auto& pin = pins_[at(p)];
        const double in = instance.receive[at(pin.value, instance.types, t)];
        const double out = instance.send[at(pin.value, instance.types, t)];
        const bool forward = pin.producer == pin.first;
        backward = backward || (!forward && in + out > 0);
        const double sign = pin.last ? -1 : pin.first == i ? 1 : 0;
        crossing_low += sign * (forward ? in : std::min(in, out));
        crossing_high += sign * (forward ? in : std::max(in, out));
      }
      if (i + 1 == size()) crossing_low = crossing_high = 0;
    }
    const bool holds = (overlap != Overlap::kFullDuplex || !backward) && !model_->holds_transfers;
    const auto from = unbroken_from(low, high);
    for (int i = 0; i <= size(); ++i) {
      covered_from_[at(i)] = std::max(covered_from_[at(i)], holds || i == size() ? from[at(i)] : i);
    }
  }
  covered_from_[order_.size()] = 0;
}

/// What the pin at `place` changes in the transfers of a stage that starts at `begin` and now takes
/// it.
void Line::move(const Pin& pin, int begin, int place, int type, Transfers& transfers) const {
  const auto& instance = model_->instance;
  const double in = instance.receive[at(pin.value, instance.types, type)];
  const double out = instance.send[at(pin.value, instance.types, type)];
  const double bytes = model_->holds_transfers ? instance.bytes[at(pin.value)] : 0;
  if (pin.previous >= begin) {  // It was cut already: its last pin was not in.
    const bool sent = pin.producer >= begin && pin.producer < place;
    (sent ? transfers.out : transfers.in) -= sent ? out : in;
    transfers.bytes -= bytes;
  }
  if (pin.first >= begin && pin.last) return;
  const bool sends = pin.producer >= begin && pin.producer <= place;
  (sends ? transfers.out : transfers.in) += sends ? out : in;
  transfers.bytes += bytes;
}

double Line::compute(int begin, int end, int mode) const {
  const auto& sums = sums_[at(mode)];
  return model_->instance.mode_launch[at(mode)] + (sums[at(end)] - sums[at(begin)]);
}

/// The largest end with compute below `limit`, memory in its cap and all groups supported.
int Line::farthest(int begin, int mode, double limit) const {
  const auto& instance = model_->instance;
  const auto& sums = sums_[at(mode)];
  const double base = sums[at(begin)] - instance.mode_launch[at(mode)];
  const auto time_end = std::lower_bound(sums.begin() + begin, sums.end(), limit + base);
  int end = static_cast<int>(time_end - sums.begin()) - 1;
  end = std::min(end, unsupported_[at(mode)][at(begin)]);
  const double cap = instance.type_memory[at(instance.mode_type[at(mode)])];
  while (end > begin && !fits(memory_[at(end)] - memory_[at(begin)], cap)) {
    const auto memory_end =
        std::upper_bound(memory_.begin() + begin, memory_.begin() + end, memory_[at(begin)] + cap);
    end = std::min(end - 1, static_cast<int>(memory_end - memory_.begin()) - 1);
  }
  return std::max(end, begin);
}

void Line::reach(int begin, int mode, int replicas, double load, bool all,
                 std::vector<Interval>& stages) const {
  const auto& instance = model_->instance;
  const int type = instance.mode_type[at(mode)];
  const auto overlap = instance.type_overlap[at(type)];
  const double cap = instance.type_memory[at(type)];
  const double limit = load * replicas;
  const int farthest_end = farthest(begin, mode, limit);
  Transfers transfers;
  if (!adjacent_) {
    scan_.clear();
    for (int place = begin; place < farthest_end; ++place) {
      for (int p = pins_begin_[at(place)]; p < pins_begin_[at(place) + 1]; ++p) {
        move(pins_[at(p)], begin, place, type, transfers);
      }
      const double time = compute(begin, place + 1, mode);
      const bool fitting = fits(memory_[at(place) + 1] - memory_[at(begin)] + transfers.bytes, cap);
      scan_.push_back({begin, place + 1, mode, replicas,
                       fitting ? load_of(overlap, time, transfers) : kInfinite,
                       time + transfers.in + transfers.out});
    }
  }
  for (int end = farthest_end; end > begin;) {
    Interval stage;
    if (adjacent_) {
      transfers.in = cut_in_[at(type)][at(begin)];
      transfers.out = cut_out_[at(type)][at(end)];
      const double time = compute(begin, end, mode);
      stage = {begin,
               end,
               mode,
               replicas,
               load_of(overlap, time, transfers),
               time + transfers.in + transfers.out};
    } else {
      stage = scan_[at(end - begin - 1)];
    }
    if (stage.load < limit) {
      stage.load /= replicas;
      stages.push_back(stage);
      end = (all ? end : covered_from_[at(end)]) - 1;
    } else {
      --end;
    }
  }
}

}  // namespace penstock::planner
