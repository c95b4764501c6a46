// Writes each tensor once, by the hash of its content, and hashes the file as it grows.
#include "penstock/graph/weight_store.h"

#include <string_view>
#include <system_error>

#include "penstock/base/files.h"
#include "penstock/base/hash.h"
#include "penstock/graph/new_file.h"
#include "penstock/graph/subgraph.h"

namespace penstock::graph {
namespace {

namespace fs = std::filesystem;

/// Writes to a file and hashes what stands in it.
class HashedFile {
 public:
  explicit HashedFile(const fs::path& path) : file_(path) {}

  /// \returns the offset of the bytes
  Result<std::uint64_t> add(std::string_view bytes) {
    const std::uint64_t before = at_;
    PENSTOCK_TRY(at_, file_.align(Tensor::kAlignment));
    hash_.update(std::string(at_ - before, '\0'));
    PENSTOCK_CHECK_OK(file_.write(bytes));
    hash_.update(bytes);
    const std::uint64_t offset = at_;
    at_ += bytes.size();
    return offset;
  }

  Result<std::string> commit() {
    PENSTOCK_CHECK_OK(file_.commit());
    return hash_.finish();
  }

  [[nodiscard]] std::uint64_t bytes() const { return at_; }

 private:
  NewFile file_;
  Sha256 hash_;
  std::uint64_t at_ = 0;
};

bool may_hold(const Tensor& tensor) {
  return tensor.kind() == Tensor::Kind::kDense && tensor.bytes() >= WeightStore::kLeastBytes;
}

}  // namespace

Result<std::shared_ptr<const WeightStore>> WeightStore::create(const Graph& graph) {
  std::shared_ptr<WeightStore> store(new WeightStore);
  PENSTOCK_TRY(store->folder_, make_temporary_folder());
  HashedFile file(*store->folder_ / kFileName);
  for (const auto& value : graph.values) {
    if (!value.constant || !may_hold(*value.constant)) continue;
    const auto [place, fresh] = store->offsets_.emplace(content_hash(*value.constant), 0);
    if (!fresh) continue;
    const auto* data = static_cast<const char*>(value.constant->data());
    PENSTOCK_TRY(place->second, file.add({data, value.constant->bytes()}));
  }
  store->bytes_ = file.bytes();
  PENSTOCK_TRY(store->sha256_, file.commit());
  return std::shared_ptr<const WeightStore>(std::move(store));
}

std::optional<std::uint64_t> WeightStore::find(const Tensor& tensor) const {
  if (!may_hold(tensor)) return std::nullopt;
  const auto found = offsets_.find(content_hash(tensor));
  return found == offsets_.end() ? std::nullopt : std::optional(found->second);
}

bool WeightStore::link_into(const fs::path& folder) const {
  std::error_code error;
  const auto link = folder / kFileName;
  fs::create_hard_link(*folder_ / kFileName, link, error);
  return !error || (error == std::errc::file_exists &&
                    fs::equivalent(*folder_ / kFileName, link, error) && !error);
}

}  // namespace penstock::graph
