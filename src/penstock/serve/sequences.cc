// Gives each sequence a stream of the pipeline; ends streams that are over or idle for too long.
#include "penstock/serve/sequences.h"

#include <algorithm>
#include <utility>

namespace penstock::serve {
namespace {

std::string name_of(const SequenceId& id) {
  const auto* number = std::get_if<std::uint64_t>(&id);
  return number != nullptr ? std::to_string(*number) : "'" + std::get<std::string>(id) + "'";
}

/// For so many more.
void make_room(std::vector<std::uint64_t>& numbers, std::size_t more) {
  const std::size_t wanted = numbers.size() + more;
  if (numbers.capacity() < wanted) numbers.reserve(std::max(wanted, 2 * numbers.capacity()));
}

}  // namespace

Result<std::shared_ptr<Sequences::Lane>> Sequences::enter(const std::optional<Sequence>& sequence) {
  const std::scoped_lock lock(mutex_);
  std::shared_ptr<Lane> lane;
  if (sequence) {
    if (const auto found = by_id_.find(sequence->id); found != by_id_.end()) lane = found->second;
    if (lane != nullptr && sequence->start && options_.has_states)
      close(std::exchange(lane, nullptr));
    if ((lane == nullptr || lane->ending) && !sequence->start && options_.has_states) {
      return invalid_argument("sequence ", name_of(sequence->id),
                              " is not known: its first request must say sequence_start, and it "
                              "may have ended, or been idle for too long");
    }
  }
  if (lane == nullptr) {
    if (options_.has_states && !has_room()) {
      return make_error(Code::kResourceExhausted, "the model takes ", options_.most,
                        " sequences at a time, and so many are open; end one, or try again later");
    }
    lane = open(sequence ? std::optional(sequence->id) : std::nullopt);
  }
  ++lane->requests;
  lane->used = std::chrono::steady_clock::now();
  if (sequence && sequence->end) lane->ending = true;
  if (options_.has_states && !sequence) close(lane);
  return lane;
}

std::shared_ptr<Sequences::Lane> Sequences::open(const std::optional<SequenceId>& id) {
  auto lane = std::make_shared<Lane>();
  lane->id = id;
  // Whoever leaves needs no memory for it, and has none perhaps.
  make_room(options_.has_states ? over_ : free_, open_ + 1);
  if (id) by_id_[*id] = lane;
  if (free_.empty()) {
    lane->stream = next_++;
  } else {
    lane->stream = free_.back();
    free_.pop_back();
  }
  ++open_;
  return lane;
}

/// No request finds it any more.
void Sequences::close(const std::shared_ptr<Lane>& lane) {
  if (lane->id && by_id_.contains(*lane->id)) by_id_.erase(*lane->id);
  lane->id.reset();
  if (std::exchange(lane->ended, true)) return;
  if (lane->requests == 0) end(*lane);
}

/// Its stream is over; the pipeline may have to be told later.
void Sequences::end(const Lane& lane) {
  over_.push_back(lane.stream);
  --open_;
}

bool Sequences::has_room() {
  if (open_ >= options_.most) {
    const auto before = std::chrono::steady_clock::now() - options_.idle_after;
    const auto idle = std::ranges::find_if(by_id_, [&](const auto& known) {
      return known.second->requests == 0 && known.second->used <= before;
    });
    if (idle == by_id_.end()) return false;
    close(std::shared_ptr(idle->second));
  }
  return over_.size() < kMostEnding || (end_over(), over_.size() < kMostEnding);
}

void Sequences::leave(const std::shared_ptr<Lane>& lane, bool last, Left left) {
  const std::scoped_lock lock(mutex_);
  --lane->requests;
  if (options_.has_states) return leave_states(lane, last, left);
  if (lane->requests > 0) return;
  if (lane->id) by_id_.erase(*lane->id);
  free_.push_back(lane->stream);
  --open_;
}

/// Who was refused may try again: the sequence is as it was before the request. Nobody comes again
/// to end what was given up.
void Sequences::leave_states(const std::shared_ptr<Lane>& lane, bool last, Left left) {
  if (lane->ended) {
    if (lane->requests == 0) end(*lane);
    return;
  }
  lane->begun = lane->begun || left == Left::kFrame;
  if (last) lane->ending = false;
  const bool never_began = lane->requests == 0 && !lane->begun;
  if ((last && left != Left::kRefused) || never_began) close(lane);
}

void Sequences::end_over() {
  std::erase_if(over_, options_.end_stream);
}

bool Sequences::end_streams() {
  const std::scoped_lock lock(mutex_);
  end_over();
  return over_.empty();
}

}  // namespace penstock::serve
