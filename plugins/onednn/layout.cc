#include "layout.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace penstock::onednn {
namespace {

Dims plain_strides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

/// Equal but for dimensions that hold one element.
bool same_strides(const Dims& dims, const Dims& a, const Dims& b) {
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != 1 && a[i] != b[i]) return false;
  }
  return true;
}

/// A dimension of one element may have any stride, but the library only knows orders by their
/// usual ones: here those of the nearer of C order and channels last.
Dims usual_strides(const Dims& dims, Dims strides) {
  const bool has_space =
      std::ranges::any_of(dims.begin() + std::min<std::ptrdiff_t>(2, std::ssize(dims)), dims.end(),
                          [](auto size) { return size > 1; });
  const bool channels_last = has_space && dims[1] > 1 && strides[1] == 1;
  std::vector<std::size_t> order(dims.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (channels_last) std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  std::int64_t next = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    if (dims[order[i]] == 1) strides[order[i]] = next;
    // Around all that are further in: a batch of one is the outermost dimension of a view too.
    next = std::max(next, strides[order[i]] * dims[order[i]]);
  }
  return strides;
}

/// Dimensions of one shape that hold the same elements as some of another.
struct Group {
  std::size_t from_begin, from_end, to_begin, to_end;
};

/// As small as they can be. \pre both shapes have as many elements, and some.
std::vector<Group> groups_of(const Dims& from, const Dims& to) {
  std::vector<Group> groups;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < from.size() && j < to.size()) {
    Group group{i, i + 1, j, j + 1};
    std::int64_t a = from[i++];
    std::int64_t b = to[j++];
    while (a != b) {
      if (a < b) {
        a *= from[i++];
      } else {
        b *= to[j++];
      }
    }
    group.from_end = i;
    group.to_end = j;
    groups.push_back(group);
  }
  // What is left over are ones.
  if (!groups.empty()) {
    groups.back().from_end = from.size();
    groups.back().to_end = to.size();
  }
  return groups;
}

/// What `ask` is about, as a list of `rank` numbers.
Dims query_dims(const Engine& engine, const_dnnl_memory_desc_t descriptor, dnnl_query_t ask,
                std::size_t rank) {
  const dnnl_dims_t* found = nullptr;
  if (engine.api.memory_desc_query(descriptor, ask, static_cast<void*>(&found)) != dnnl_success)
    return {};
  return {*found, *found + rank};
}

int query_int(const Engine& engine, const_dnnl_memory_desc_t descriptor, dnnl_query_t ask) {
  int found = 0;
  return engine.api.memory_desc_query(descriptor, ask, static_cast<void*>(&found)) == dnnl_success
             ? found
             : 0;
}

}  // namespace

std::int64_t count_of(std::span<const std::int64_t> dims) {
  return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
}

Dims at_least_1d(Dims dims) {
  if (dims.empty()) dims.push_back(1);
  return dims;
}

Blocks blocks_around(const Dims& dims, std::size_t axis) {
  return {.outer = count_of(std::span(dims).first(axis)),
          .size = dims[axis],
          .inner = count_of(std::span(dims).subspan(axis + 1))};
}

Result<Layout> Layout::take(const Engine& engine, dnnl_memory_desc_t raw) {
  Layout layout;
  layout.engine_ = &engine;
  layout.descriptor_ = {raw, engine.api.memory_desc_destroy};
  const auto rank = static_cast<std::size_t>(query_int(engine, raw, dnnl_query_ndims_s32));
  layout.dims_ = query_dims(engine, raw, dnnl_query_dims, rank);
  dnnl_format_kind_t kind = dnnl_format_kind_undef;
  engine.api.memory_desc_query(raw, dnnl_query_format_kind, &kind);
  if (kind != dnnl_format_kind_any) layout.bytes_ = engine.api.memory_desc_get_size(raw);
  if (kind != dnnl_blocked) return layout;
  Dims strides = query_dims(engine, raw, dnnl_query_strides, rank);
  const auto blocks = static_cast<std::size_t>(query_int(engine, raw, dnnl_query_inner_nblks_s32));
  for (const auto axis : query_dims(engine, raw, dnnl_query_inner_idxs, blocks)) {
    strides[static_cast<std::size_t>(axis)] = 0;
  }
  layout.order_by(strides);
  if (blocks == 0) layout.strides_ = std::move(strides);
  return layout;
}

void Layout::order_by(const Dims& strides) {
  order_.resize(strides.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::ranges::stable_sort(order_,
                           [&](std::size_t a, std::size_t b) { return strides[a] > strides[b]; });
}

Result<Layout> Layout::plain(const Engine& engine, const Dims& dims, DType dtype) {
  return strided(engine, dims, plain_strides(dims), dtype);
}

Result<Layout> Layout::strided(const Engine& engine, const Dims& dims, const Dims& strides,
                               DType dtype) {
  if (dims.size() > DNNL_MAX_NDIMS) {
    return make_error(Code::kUnimplemented, "oneDNN takes tensors of at most ", DNNL_MAX_NDIMS,
                      " dimensions, found ", dims.size());
  }
  const Dims usual = usual_strides(dims, strides);
  if (dtype != DType::kF32) {
    Layout layout;
    layout.engine_ = &engine;
    layout.dims_ = dims;
    layout.strides_ = usual;
    layout.dtype_ = dtype;
    layout.order_by(usual);
    std::int64_t last = 0;
    for (std::size_t i = 0; i < dims.size(); ++i) last += (dims[i] - 1) * usual[i];
    layout.bytes_ = bytes_of(dtype, static_cast<std::size_t>(last + 1));
    return layout;
  }
  dnnl_memory_desc_t raw = nullptr;
  PENSTOCK_CHECK_OK(
      engine.check(engine.api.memory_desc_create_with_strides(&raw, static_cast<int>(dims.size()),
                                                              dims.data(), dnnl_f32, usual.data()),
                   "tensor"));
  return take(engine, raw);
}

Result<Layout> Layout::any(const Engine& engine, const Dims& dims) {
  dnnl_memory_desc_t raw = nullptr;
  PENSTOCK_CHECK_OK(engine.check(
      engine.api.memory_desc_create_with_tag(&raw, static_cast<int>(dims.size()), dims.data(),
                                             dnnl_f32, dnnl_format_tag_any),
      "tensor"));
  return take(engine, raw);
}

Result<Layout> Layout::of(const Engine& engine, const_dnnl_memory_desc_t descriptor) {
  dnnl_memory_desc_t raw = nullptr;
  PENSTOCK_CHECK_OK(engine.check(engine.api.memory_desc_clone(&raw, descriptor), "tensor"));
  return take(engine, raw);
}

bool Layout::is_plain() const {
  return is_strided() && same_strides(dims_, strides_, plain_strides(dims_));
}

bool Layout::is_dense() const {
  return bytes_ == bytes_of(dtype_, static_cast<std::size_t>(count_of(dims_)));
}

Result<Layout> Layout::dense_like(const Dims& dims) const {
  return dense_like(dims, dtype_);
}

Result<Layout> Layout::dense_like(const Dims& dims, DType dtype) const {
  Dims strides(dims.size());
  std::int64_t stride = 1;
  for (std::size_t i = order_.size(); i-- > 0;) {
    strides[order_[i]] = stride;
    stride *= dims[order_[i]];
  }
  return strided(*engine_, dims, strides, dtype);
}

bool Layout::same(const Layout& other) const {
  if (dtype_ != other.dtype_ || dims_ != other.dims_ || is_strided() != other.is_strided()) {
    return false;
  }
  if (is_strided()) return same_strides(dims_, strides_, other.strides_);
  return engine_->api.memory_desc_equal(get(), other.get()) != 0;
}

std::optional<Layout> Layout::reshaped(const Dims& dims) const {
  if (dims == dims_) return *this;
  if (is_strided()) return reshaped_strides(dims);
  dnnl_memory_desc_t raw = nullptr;
  const auto outcome =
      engine_->api.memory_desc_reshape(&raw, get(), static_cast<int>(dims.size()), dims.data());
  if (outcome != dnnl_success) return {};
  auto view = take(*engine_, raw);
  if (!view) return {};
  return *std::move(view);
}

/// Where the dimensions of each group follow one another without gaps.
std::optional<Layout> Layout::reshaped_strides(const Dims& dims) const {
  Dims strides(dims.size(), 1);
  for (const Group& group : groups_of(dims_, dims)) {
    std::int64_t innermost = 0;
    std::int64_t expected = 0;
    for (std::size_t i = group.from_end; i-- > group.from_begin;) {
      if (dims_[i] == 1) continue;
      if (expected == 0) innermost = expected = strides_[i];
      if (strides_[i] != expected) return {};
      expected *= dims_[i];
    }
    std::int64_t stride = std::max<std::int64_t>(innermost, 1);
    for (std::size_t i = group.to_end; i-- > group.to_begin;) {
      strides[i] = stride;
      stride *= dims[i];
    }
  }
  auto view = strided(*engine_, dims, strides, dtype_);
  if (!view) return {};
  return *std::move(view);
}

Result<Layout> Layout::copy_to_reshape(const Dims& dims) const {
  if (!is_strided()) return plain(*engine_, dims_, dtype_);
  auto groups = groups_of(dims_, dims);
  const auto least_stride = [this](const Group& group) {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = group.from_begin; i < group.from_end; ++i) {
      if (dims_[i] != 1) least = std::min(least, strides_[i]);
    }
    return least;
  };
  std::ranges::stable_sort(groups, std::ranges::less(), least_stride);
  Dims strides(dims_.size(), 1);
  std::int64_t stride = 1;
  for (const Group& group : groups) {
    for (std::size_t i = group.from_end; i-- > group.from_begin;) {
      strides[i] = stride;
      stride *= dims_[i];
    }
  }
  return strided(*engine_, dims_, strides, dtype_);
}

std::optional<Layout> Layout::permuted(const std::vector<int>& order) const {
  if (is_strided()) {
    Dims dims, strides;
    for (const int axis : order) {
      dims.push_back(dims_[static_cast<std::size_t>(axis)]);
      strides.push_back(strides_[static_cast<std::size_t>(axis)]);
    }
    auto view = strided(*engine_, dims, strides, dtype_);
    if (view) return *std::move(view);
    return {};
  }
  // oneDNN's permutation says where each dimension goes.
  std::vector<int> target(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    target[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  }
  dnnl_memory_desc_t raw = nullptr;
  if (engine_->api.memory_desc_permute_axes(&raw, get(), target.data()) != dnnl_success) return {};
  auto view = take(*engine_, raw);
  if (!view) return {};
  return *std::move(view);
}

}  // namespace penstock::onednn
