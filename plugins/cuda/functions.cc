// Each follows ONNX's definition of the operator of its name. Templates serve integers too.
#include "functions.h"

namespace penstock::cuda {

std::string_view functions() {
  return R"(
#define F __device__ __forceinline__
#define INFINITE __int_as_float(0x7f800000)
#define NOT_A_NUMBER __int_as_float(0x7fffffff)
template <typename T> F T add(T a, T b) { return (T)(a + b); }
template <typename T> F T sub(T a, T b) { return (T)(a - b); }
template <typename T> F T mul(T a, T b) { return (T)(a * b); }
template <typename T> F T quotient(T a, T b) { return (T)(a / b); }
template <typename T> F T max_of(T a, T b) { return a != a || a > b ? a : b; }
template <typename T> F T min_of(T a, T b) { return a != a || a < b ? a : b; }
template <typename T> F T modulo(T a, T b) {
  const T rest = (T)(a % b);
  return rest != 0 && (rest < 0) != (b < 0) ? (T)(rest + b) : rest;
}
template <typename T> F T remainder_of(T a, T b) { return (T)(a % b); }
F float remainder_of(float a, float b) { return fmodf(a, b); }
template <typename T> F bool equal(T a, T b) { return a == b; }
template <typename T> F bool greater(T a, T b) { return a > b; }
template <typename T> F bool greater_or_equal(T a, T b) { return a >= b; }
template <typename T> F bool less(T a, T b) { return a < b; }
template <typename T> F bool less_or_equal(T a, T b) { return a <= b; }
F bool both(bool a, bool b) { return a && b; }
F bool either(bool a, bool b) { return a || b; }
F bool one_of(bool a, bool b) { return a != b; }
F bool negated(bool a) { return !a; }
template <typename T> F T choose(bool c, T a, T b) { return c ? a : b; }
template <typename T> F T clip(T x, T low, T high) { return min_of(max_of(x, low), high); }
template <typename T> F T magnitude(T x) { return (T)(x < 0 ? -x : x); }
F float magnitude(float x) { return fabsf(x); }
template <typename T> F T negative(T x) { return (T)-x; }
template <typename T> F T sign(T x) { return (T)(x > 0 ? 1 : x < 0 ? -1 : x); }
template <typename T> F float to_float(T x) { return (float)x; }
template <typename T> F long long to_i64(T x) { return (long long)x; }
template <typename T> F int to_i32(T x) { return (int)x; }
template <typename T> F signed char to_i8(T x) { return (signed char)(long long)x; }
template <typename T> F unsigned char to_u8(T x) { return (unsigned char)(long long)x; }
template <typename T> F bool to_bool(T x) { return x != (T)0; }
F float power(float x, float y) { return y == 2.0f ? x * x : powf(x, y); }
F float square_root(float x) { return sqrtf(x); }
F float reciprocal(float x) { return 1.0f / x; }
F float exponential(float x) { return expf(x); }
F float logarithm(float x) { return logf(x); }
F float error_function(float x) { return erff(x); }
F float floor_of(float x) { return floorf(x); }
F float ceil_of(float x) { return ceilf(x); }
F float round_of(float x) { return rintf(x); }
F float sine(float x) { return sinf(x); }
F float cosine(float x) { return cosf(x); }
F float tangent(float x) { return tanf(x); }
F float arc_sine(float x) { return asinf(x); }
F float arc_cosine(float x) { return acosf(x); }
F float arc_tangent(float x) { return atanf(x); }
F float hyperbolic_sine(float x) { return sinhf(x); }
F float hyperbolic_cosine(float x) { return coshf(x); }
F float hyperbolic_tangent(float x) { return tanhf(x); }
F float area_sine(float x) { return asinhf(x); }
F float area_cosine(float x) { return acoshf(x); }
F float area_tangent(float x) { return atanhf(x); }
F bool is_nan(float x) { return x != x; }
F float relu(float x) { return x < 0.0f ? 0.0f : x; }
F float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
F float softplus(float x) { return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))); }
F float softsign(float x) { return x / (1.0f + fabsf(x)); }
F float mish(float x) { return x * tanhf(softplus(x)); }
F float silu(float x) { return x / (1.0f + expf(-x)); }
F float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f)); }
F float gelu_tanh(float x) {
  return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
}
F float elu(float x, float alpha) { return x < 0.0f ? alpha * expm1f(x) : x; }
F float celu(float x, float alpha) {
  return fmaxf(0.0f, x) + fminf(0.0f, alpha * expm1f(x / alpha));
}
F float selu(float x, float alpha, float gamma) {
  return gamma * (x > 0.0f ? x : alpha * expm1f(x));
}
F float leaky_relu(float x, float slope) { return x < 0.0f ? slope * x : x; }
F float thresholded_relu(float x, float alpha) { return x > alpha ? x : 0.0f; }
F float hard_sigmoid(float x, float alpha, float beta) {
  return fminf(fmaxf(alpha * x + beta, 0.0f), 1.0f);
}
F float hard_swish(float x) { return x * hard_sigmoid(x, 1.0f / 6.0f, 0.5f); }
F float scaled(float x, float scale, float shift) { return x * scale + shift; }
F float normalised(float x, float mean, float deviation, float scale, float shift) {
  return (x - mean) * deviation * scale + shift;
}
template <int kThreads, typename Function> F float over_block(float v, Function function) {
  for (int s = 16; s > 0; s >>= 1) v = function(v, __shfl_xor_sync(0xffffffffu, v, s));
  if (kThreads == 32) return v;
  __shared__ float parts[kThreads / 32];
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
  __syncthreads();
  v = parts[0];
  for (int i = 1; i < kThreads / 32; ++i) v = function(v, parts[i]);
  return v;
}
)";
}

}  // namespace penstock::cuda
