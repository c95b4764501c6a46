// Cursor: an ideal J, and behind it one stage, with all its costs at hand.
// The stage grows and shrinks by a group at a time.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "penstock/planner/bounds/ideals.h"
#include "penstock/planner/bounds/model.h"

namespace penstock::planner {

/// What is summed over the groups of J and the stage together, for each price system.
struct Priced {
  std::array<double, kMostPrices> work{};  ///< Of the groups.
  std::array<double, kMostPrices> cut{};   ///< Of the values that cross, as those behind will pay.
  std::array<int, kMostPrices> lacking{};  ///< Groups that no priced type supports.
};

class Cursor {
 public:
  /// Borrows the model. Starts with J empty and no stage.
  explicit Cursor(const Model& model);

  /// Makes J the ideal, whose sums are `priced` and hash is `key`. The stage must be empty.
  void move_to(std::span<const Word> ideal, const Priced& priced, std::uint64_t key);
  /// The empty stage will run in `mode`.
  void set_mode(int mode);
  void add(int group);
  void drop();  ///< Takes back the last add().

  /// Groups that may come next: all before them are in J or the stage.
  [[nodiscard]] std::span<const Word> available() const { return available_; }
  [[nodiscard]] std::span<const Word> words() const { return words_; }  ///< J and the stage.
  [[nodiscard]] std::span<const int> stage() const { return stage_; }
  [[nodiscard]] int size() const { return size_; }  ///< Groups in both.
  [[nodiscard]] std::uint64_t key() const { return sums_.key; }
  [[nodiscard]] const Priced& priced() const { return sums_.priced; }

  [[nodiscard]] double load() const;      ///< Of the stage, by one device for one frame.
  [[nodiscard]] double duration() const;  ///< compute + in + out
  /// Whether the stage with `group` as well stays below `load` and in memory.
  [[nodiscard]] bool fits_with(int group, double load) const;
  /// The load that this stage and every longer one has at least.
  [[nodiscard]] double floor() const;
  [[nodiscard]] bool fits_memory() const;        ///< This stage.
  [[nodiscard]] bool floor_fits_memory() const;  ///< A longer one may.
  [[nodiscard]] bool supports(int group) const {
    return instance_->time_of(group, mode_) < kInfinite;
  }

  /// Whether some plan that continues behind J and the stage gets no worse when the stage takes
  /// `group` (available) as well, as far as the later stages go. See the proof at the definition.
  [[nodiscard]] bool may_pull(int group) const;

 private:
  enum class Place : char { kBehind, kBefore, kStage };
  struct ValueState {
    int before = 0, inside = 0;  ///< Pins in J, in the stage.
    int pins = 0;
    Place producer = Place::kBehind;
  };
  struct Ends {
    double receive = 0, send = 0;
  };
  struct Sums {
    double compute = 0, memory = 0;
    Transfers transfers;
    double floor_in = 0, floor_any = 0,
           floor_bytes = 0;  ///< Of values with pins in J: they stay cut.
    Priced priced;
    std::uint64_t key = 0;
  };

  void shift(int group, int sign);
  void add_value(int value, int group);
  void add_priced(int value, const ValueState& state, bool producing);
  void put_group(int group);

  const Model* model_;
  const Instance* instance_;
  int prices_;
  int mode_ = 0, type_ = 0;
  int size_ = 0;
  Sums sums_;
  std::vector<Sums> undo_;
  std::vector<int> stage_;
  std::vector<Word> words_, before_, available_;
  std::vector<int> missing_;  ///< [group] Groups before it that are neither in J nor in the stage.
  std::vector<ValueState> values_;
  std::vector<Ends> ends_;           ///< [type * values + value]
  std::vector<double> least_time_;   ///< [group * types + type] Over its modes.
  std::vector<std::uint64_t> keys_;  ///< [group] Zobrist.
};

}  // namespace penstock::planner
