// A table by secret that counts the pulls left and in progress, and bounds the bytes that are kept.
#include "penstock/host/tickets.h"

#include <algorithm>

#include "penstock/base/secret.h"

namespace penstock::host {
namespace {

/// What is held for a tensor; strings besides.
std::uint64_t held_bytes(const Tensor& tensor) {
  if (tensor.kind() != Tensor::Kind::kStrings) {
    return std::max(tensor.bytes(), tensor.capacity_bytes());
  }
  std::uint64_t bytes = 0;
  for (const auto& text : tensor.strings()) bytes += sizeof(text) + text.size();
  return bytes;
}

}  // namespace

Result<std::string> Tickets::keep(Owner owner, Tensor tensor, unsigned pulls) {
  PENSTOCK_TRY(auto id, make_secret());
  const std::uint64_t bytes = held_bytes(tensor);
  const std::scoped_lock lock(mutex_);
  if (bytes > most_bytes_ - bytes_) {
    return make_error(Code::kResourceExhausted, "tensors that stay here may take ", most_bytes_,
                      " bytes, and ", bytes_, " are taken; pull or release some");
  }
  bytes_ += bytes;
  ++counts_[owner];
  kept_.emplace(id, Kept{owner, std::move(tensor), pulls, 0});
  return id;
}

Result<Tickets::Pull> Tickets::pull(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  const auto found = kept_.find(id);
  if (found == kept_.end() || found->second.pulls == 0) {
    return not_found("no such ticket: its tensor was pulled or released, or its session has ended");
  }
  --found->second.pulls;
  ++found->second.pulling;
  return Pull(this, id, found->second.tensor);
}

void Tickets::end_pull(const std::string& id, bool finished) {
  Tensor freed;  // Without the lock.
  const std::scoped_lock lock(mutex_);
  const auto found = kept_.find(id);
  if (found == kept_.end()) return;
  --found->second.pulling;
  if (!finished) ++found->second.pulls;
  if (found->second.pulls == 0 && found->second.pulling == 0) freed = forget(found);
}

Tensor Tickets::forget(ById::iterator kept) {
  Tensor tensor = std::move(kept->second.tensor);
  bytes_ -= held_bytes(tensor);
  const auto count = counts_.find(kept->second.owner);
  if (--count->second == 0) counts_.erase(count);
  kept_.erase(kept);
  return tensor;
}

void Tickets::release(Owner owner, const std::vector<std::string>& ids) {
  std::vector<Tensor> freed;
  const std::scoped_lock lock(mutex_);
  for (const auto& id : ids) {
    const auto found = kept_.find(id);
    if (found != kept_.end() && found->second.owner == owner) freed.push_back(forget(found));
  }
}

void Tickets::release_all(Owner owner, const std::set<std::string>& but) {
  std::vector<Tensor> freed;
  const std::scoped_lock lock(mutex_);
  for (auto kept = kept_.begin(); kept != kept_.end();) {
    const auto next = std::next(kept);
    const bool goes = kept->second.owner == owner && !but.contains(kept->first);
    if (goes) freed.push_back(forget(kept));
    kept = next;
  }
}

std::uint64_t Tickets::bytes() const {
  const std::scoped_lock lock(mutex_);
  return bytes_;
}

std::size_t Tickets::count(Owner owner) const {
  const std::scoped_lock lock(mutex_);
  const auto found = counts_.find(owner);
  return found == counts_.end() ? 0 : found->second;
}

}  // namespace penstock::host
