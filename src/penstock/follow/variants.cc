// Makes plans in which one stage has the whole network, or two stages exchange their devices.
#include "penstock/follow/variants.h"

#include <algorithm>
#include <utility>

#include "penstock/follow/merge.h"

namespace penstock::follow {
namespace {

std::string names_of(const Devices& devices) {
  return join(devices, ", ", [](const auto& device) { return device::to_string(device); });
}

class Finder {
 public:
  explicit Finder(const plan::Plan& plan) : plan_(plan) {}

  std::vector<Variant> run() && {
    add("as it is", plan_, each_by_itself());
    if (!std::ranges::all_of(plan_.stages, is_plain)) return std::move(found_);
    const auto like_first = [&](const auto& s) { return are_alike(s, plan_.stages.front()); };
    if (std::ranges::all_of(plan_.stages, like_first)) add_whole();
    add_exchanged();
    return std::move(found_);
  }

 private:
  [[nodiscard]] std::vector<std::vector<std::size_t>> each_by_itself() const {
    std::vector<std::vector<std::size_t>> from;
    for (std::size_t i = 0; i < plan_.stages.size(); ++i) from.push_back({i});
    return from;
  }

  void add(std::string name, plan::Plan plan, std::vector<std::vector<std::size_t>> from) {
    const auto is_same = [&](const Variant& known) { return known.plan.stages == plan.stages; };
    if (std::ranges::any_of(found_, is_same)) return;
    if (!found_.empty() && !plan::violations(plan).empty()) return;
    found_.push_back({std::move(name), std::move(plan), std::move(from)});
  }

  void add_whole(const std::string& name, const Devices& devices) {
    plan::Plan plan = plan_;
    plan.stages = {merged(plan_, 0, plan_.stages.size(), devices)};
    plan.prediction = {};
    plan::connect(plan);
    keep_policies(plan_, plan);
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < plan_.stages.size(); ++i) all.push_back(i);
    add(name, std::move(plan), {all});
  }

  void add_whole() {
    const auto all = devices_of(plan_);
    add_whole(all);
    Devices single;
    for (const auto& device : all) {
      for (const int cpu : device.cpus) single.push_back({.host = {}, .cpus = {cpu}});
    }
    add_whole(single);
  }

  void add_whole(const Devices& all) {
    for (const auto& device : all) add_whole("whole on " + device::to_string(device), {device});
    if (!plan_.states.empty() || all.size() < 2) return;  // What writes a state has one instance.
    add_whole("whole on each of " + names_of(all), all);
    for (std::size_t i = 0; i < all.size() && all.size() > 2; ++i) {
      auto fewer = all;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      add_whole("whole on each but " + device::to_string(all[i]), fewer);
    }
  }

  void add_exchanged() {
    for (std::size_t a = 0; a < plan_.stages.size(); ++a) {
      for (std::size_t b = a + 1; b < plan_.stages.size(); ++b) {
        auto plan = plan_;
        auto &one = plan.stages[a], &other = plan.stages[b];
        if (one.devices.size() != 1 || other.devices.size() != 1) continue;
        std::swap(one.devices, other.devices);
        add(concat("'", one.name, "' and '", other.name, "' changed"), std::move(plan),
            each_by_itself());
      }
    }
  }

  const plan::Plan& plan_;
  std::vector<Variant> found_;
};

}  // namespace

std::vector<Variant> variants_of(const plan::Plan& plan) {
  return Finder(plan).run();
}

}  // namespace penstock::follow
