// Multiply-add and read loops for SSE, AVX2 and AVX-512, chosen by what the CPU supports.
#include "penstock/probe/arithmetic.h"

#include <array>
#include <cstring>
#include <vector>

namespace penstock::probe {
namespace {

// More chains than a unit has steps in flight (4 or 5) times the units there are (2); together with
// two constants they fit the 16 registers of the older widths.
constexpr std::size_t kChains = 12;

// The functions below are compiled for each width anew, within the one that asks for its
// instructions: as functions of their own they would be compiled for the least of them.
template <int kBytes, typename Number>
struct VectorOf {
  using Type [[gnu::vector_size(kBytes)]] = Number;
};

template <int kBytes>
[[gnu::always_inline]] inline float multiply_and_add(std::int64_t steps) {
  using Vector = typename VectorOf<kBytes, float>::Type;
  const Vector factor = Vector{} + 0.999F;
  const Vector term = Vector{} + 0.001F;
  std::array<Vector, kChains> sums;
  for (std::size_t i = 0; i < kChains; ++i) sums[i] = Vector{} + static_cast<float>(i);
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (auto& sum : sums) sum = sum * factor + term;
  }
  Vector all{};
  for (const auto& sum : sums) all += sum;
  float total = 0;
  for (std::size_t i = 0; i < kBytes / sizeof(float); ++i) total += all[i];
  return total;
}

template <int kBytes>
[[gnu::always_inline]] inline std::uint64_t read_vectors(const std::byte* bytes, std::size_t size) {
  using Vector = typename VectorOf<kBytes, std::uint64_t>::Type;
  constexpr std::size_t kAtOnce = 8;
  std::array<Vector, kAtOnce> sums{};
  for (std::size_t at = 0; at < size; at += kAtOnce * kBytes) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kAtOnce; ++i) {
      sums[i] ^= *reinterpret_cast<const Vector*>(bytes + at + i * kBytes);
    }
  }
  Vector all{};
  for (const auto& sum : sums) all ^= sum;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < kBytes / sizeof(total); ++i) total ^= all[i];
  return total;
}

template <int kBytes>
constexpr double kFlopsPerStep = 2.0 * kChains * kBytes / sizeof(float);

#if defined(__x86_64__)

float multiply_and_add_sse(std::int64_t steps) {
  return multiply_and_add<16>(steps);
}

[[gnu::target("avx2,fma")]] float multiply_and_add_avx2(std::int64_t steps) {
  return multiply_and_add<32>(steps);
}

[[gnu::target("avx512f")]] float multiply_and_add_avx512(std::int64_t steps) {
  return multiply_and_add<64>(steps);
}

std::uint64_t read_sse(const std::byte* bytes, std::size_t size) {
  return read_vectors<16>(bytes, size);
}

[[gnu::target("avx2")]] std::uint64_t read_avx2(const std::byte* bytes, std::size_t size) {
  return read_vectors<32>(bytes, size);
}

[[gnu::target("avx512f")]] std::uint64_t read_avx512(const std::byte* bytes, std::size_t size) {
  return read_vectors<64>(bytes, size);
}

bool has_avx2() {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
}

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") != 0;
}

std::vector<Arithmetic> find_arithmetic() {
  std::vector<Arithmetic> found{{"sse", kFlopsPerStep<16>, multiply_and_add_sse}};
  if (has_avx2()) found.push_back({"avx2", kFlopsPerStep<32>, multiply_and_add_avx2});
  if (has_avx512()) found.push_back({"avx512", kFlopsPerStep<64>, multiply_and_add_avx512});
  return found;
}

auto find_reading() {
  return has_avx512() ? read_avx512 : has_avx2() ? read_avx2 : read_sse;
}

#else

float multiply_and_add_plain(std::int64_t steps) {
  return multiply_and_add<16>(steps);
}

std::uint64_t read_plain(const std::byte* bytes, std::size_t size) {
  return read_vectors<16>(bytes, size);
}

std::vector<Arithmetic> find_arithmetic() {
  return {{"plain", kFlopsPerStep<16>, multiply_and_add_plain}};
}

auto find_reading() {
  return read_plain;
}

#endif

}  // namespace

std::span<const Arithmetic> arithmetic_of_this_cpu() {
  static const std::vector<Arithmetic> kFound = find_arithmetic();
  return kFound;
}

std::uint64_t read_all(std::span<const std::byte> bytes) {
  static const auto kRead = find_reading();
  return kRead(bytes.data(), bytes.size());
}

}  // namespace penstock::probe
