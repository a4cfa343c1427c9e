// Kernels in float32 for models of the Llama family on a CPU. A row is computed by one thread, in an order that depends
// on the row alone. Pointers are to contiguous rows; sizes count floats.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <omp.h>

namespace {

typedef float Lanes __attribute__((vector_size(32)));
typedef float Unaligned __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t Places __attribute__((vector_size(32)));
constexpr long L = 8, WIDEST = 256, BLOCK = 32;

inline Lanes load(const float* at) { return *reinterpret_cast<const Unaligned*>(at); }
inline void store(float* at, Lanes lanes) { *reinterpret_cast<Unaligned*>(at) = lanes; }
#ifdef __clang__
#define PICK(left, right, ...) __builtin_shufflevector(left, right, __VA_ARGS__)
#else
#define PICK(left, right, ...) __builtin_shuffle(left, right, Places{__VA_ARGS__})
#endif

inline Lanes fold(Lanes a, Lanes b) {
  return PICK(a, b, 0, 2, 8, 10, 4, 6, 12, 14) + PICK(a, b, 1, 3, 9, 11, 5, 7, 13, 15);
}

// The sums of eight vectors, in their order.
inline Lanes sums(const Lanes* x) {
  const Lanes a = fold(fold(x[0], x[1]), fold(x[2], x[3])), b = fold(fold(x[4], x[5]), fold(x[6], x[7]));
  return PICK(a, b, 0, 1, 2, 3, 8, 9, 10, 11) + PICK(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
}

// Calls each(i, L) for every whole vector of n floats, and each(i, rest) for what is left.
template <class F>
inline __attribute__((always_inline)) void by_lanes(long n, F each) {
  long i = 0;
  for (; i + L <= n; i += L) each(i, L);
  if (i < n) each(i, n - i);
}
#define EACH [&](long i, long count) __attribute__((always_inline))

inline __attribute__((always_inline)) Lanes load(const float* at, long count) {
  Lanes lanes{};
  memcpy(&lanes, at, count * sizeof(float));
  return lanes;
}
inline __attribute__((always_inline)) void store(float* at, Lanes lanes, long count) {
  memcpy(at, &lanes, count * sizeof(float));
}

// e^x within 2 units in the last place, after Cephes; x beyond what float32 holds counts as the bound, NaN stays NaN.
inline Lanes exponential(Lanes x) {
  const Lanes least = Lanes{} - 87.3f, most = Lanes{} + 88.f;
  x = x < least ? least : x;
  x = x > most ? most : x;
  const float shifter = 12582912.f;  // 1.5 * 2^23: adding it rounds to a whole number, in the last bits
  const Lanes shifted = x * 1.44269504f + shifter, whole = shifted - shifter;
  const Lanes rest = (x - whole * 0.693359375f) - whole * -2.12194440e-4f;
  Lanes sum = Lanes{} + 1.9875691500e-4f;
  for (const float next : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
    sum = sum * rest + next;
  sum = sum * rest * rest + rest + 1.f;
  return sum * (Lanes)(((Places)shifted + 127) << 23);
}

inline Lanes logistic(Lanes x) { return 1.f / (1.f + exponential(-x)); }

inline float inverse_norm(const float* x, long n, float eps) {
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (long i = 0; i < n; i++) squares += x[i] * x[i];
  return 1.f / std::sqrt(squares / n + eps);
}

// out = rotary(norm(x)) * scale; without norm where it has no weight. cos and sin hold each half twice.
inline void rotate(const float* x, const float* weight, float eps, const float* cos, const float* sin, long width,
                   float scale, float* out) {
  float normed[WIDEST];
  if (weight) {
    const float k = inverse_norm(x, width, eps);
    for (long i = 0; i < width; i++) normed[i] = weight[i] * (x[i] * k);
    x = normed;
  }
  const long half = width / 2;
  for (long i = 0; i < half; i++) {
    out[i] = (x[i] * cos[i] - x[i + half] * sin[i]) * scale;
    out[i + half] = (x[i + half] * cos[i + half] + x[i] * sin[i + half]) * scale;
  }
}

// Products of a query with each of some keys. V: width in lanes, 0: only `width` says it; likewise below.
template <long V>
inline void score(const float* query, const float* keys, long count, long width, float* out) {
  const long lanes = V ? V : width / L;
  for (long j = 0; j < count; j += L) {
    Lanes products[L];
    const long last = count - 1 - j;
#pragma GCC unroll 8
    for (long i = 0; i < L; i++) {
      const float* key = keys + (j + (i < last ? i : last)) * lanes * L;
      products[i] = load(query) * load(key);
#pragma GCC unroll 16
      for (long v = 1; v < lanes; v++) products[i] += load(query + v * L) * load(key + v * L);
    }
    const Lanes found = sums(products);
    memcpy(out + j, &found, (last < L ? last + 1 : L) * sizeof(float));
  }
}

// out += sum of weighted values.
template <long V>
inline void mix(const float* weights, const float* values, long count, long width, float* out) {
  const long lanes = V ? V : width / L;
  Lanes total[V ? V : WIDEST / L];
#pragma GCC unroll 16
  for (long v = 0; v < lanes; v++) total[v] = load(out + v * L);
  for (long j = 0; j < count; j++) {
    const float* value = values + j * lanes * L;
#pragma GCC unroll 16
    for (long v = 0; v < lanes; v++) total[v] += weights[j] * load(value + v * L);
  }
#pragma GCC unroll 16
  for (long v = 0; v < lanes; v++) store(out + v * L, total[v]);
}

inline void softmax(float* x, long n) {
  float most = x[0], total = 0;
#pragma omp simd reduction(max : most)
  for (long j = 0; j < n; j++) most = x[j] > most ? x[j] : most;
  by_lanes(n, EACH { store(x + i, exponential(load(x + i, count) - most), count); });
#pragma omp simd reduction(+ : total)
  for (long j = 0; j < n; j++) total += x[j];
  for (long j = 0; j < n; j++) x[j] /= total;
}

struct Step {
  const float* mixed;
  long rows, heads, key_heads, width;
  const float *query_norm, *key_norm;
  float eps;
  const float *cos, *sin;
  const int64_t* positions;
  float *keys, *values;
  long row_stride, head_stride, trunk;
  float* scratch;
  long span;
  float* out;
};

template <long V>
void attend_head(const Step& s, long row, long head) {
  const long width = V ? V * L : s.width, group = s.heads / s.key_heads;
  const long place = s.positions[row], trunk = std::min(s.trunk, place);
  const float* mixed = s.mixed + row * (s.heads + 2 * s.key_heads) * width;
  const float *cos = s.cos + place * width, *sin = s.sin + place * width;
  float* keys = s.keys + row * s.row_stride + head * s.head_stride;
  float* values = s.values + row * s.row_stride + head * s.head_stride;
  rotate(mixed + (s.heads + head) * width, s.key_norm, s.eps, cos, sin, width, 1.f, keys + place * width);
  memcpy(values + place * width, mixed + (s.heads + s.key_heads + head) * width, width * sizeof(float));

  float* scores = s.scratch + omp_get_thread_num() * group * (s.span + width);
  float *queries = scores + group * s.span, *out = s.out + (row * s.heads + head * group) * width;
  const float scale = 1.f / std::sqrt(static_cast<float>(width));
  for (long g = 0; g < group; g++)
    rotate(mixed + (head * group + g) * width, s.query_norm, s.eps, cos, sin, width, scale, queries + g * width);
  // A block of keys or values is read once, for all queries of the group.
  for (long j = 0, count; j <= place; j += count) {
    const bool shared = j < trunk;
    count = std::min(BLOCK, (shared ? trunk : place + 1) - j);
    const float* block = (shared ? s.keys + head * s.head_stride : keys) + j * width;
    for (long g = 0; g < group; g++) score<V>(queries + g * width, block, count, width, scores + g * s.span + j);
  }
  for (long g = 0; g < group; g++) softmax(scores + g * s.span, place + 1);
  memset(out, 0, group * width * sizeof(float));
  for (long j = 0, count; j <= place; j += count) {
    const bool shared = j < trunk;
    count = std::min(BLOCK, (shared ? trunk : place + 1) - j);
    const float* block = (shared ? s.values + head * s.head_stride : values) + j * width;
    for (long g = 0; g < group; g++) mix<V>(scores + g * s.span + j, block, count, width, out + g * width);
  }
}

template <long V>
void attend_all(const Step& s, int threads) {
#pragma omp parallel for collapse(2) schedule(static) num_threads(threads) if (threads > 1)
  for (long head = 0; head < s.key_heads; head++)  // outside, so that a trunk stays in the cache
    for (long row = 0; row < s.rows; row++) attend_head<V>(s, row, head);
}

}  // namespace

extern "C" {

// A new token for each row: rotary, storing of key and value at its place, attention to its row's places. What all rows
// share, the first `trunk` places, is read in the first one. `mixed` has a row's queries, keys and values side by side.
void attend(const float* mixed, long rows, long heads, long key_heads, long width, const float* query_norm,
            const float* key_norm, float eps, const float* cos, const float* sin, const int64_t* positions, float* keys,
            float* values, long row_stride, long head_stride, long trunk, float* scratch, long span, float* out,
            int threads) {
  const Step s{mixed, rows,      heads, key_heads, width,      query_norm,  key_norm, eps,     cos,  sin,
               positions, keys, values, row_stride, head_stride, trunk, scratch, span, out};
  switch (width / L) {
    case 4: return attend_all<4>(s, threads);
    case 6: return attend_all<6>(s, threads);
    case 8: return attend_all<8>(s, threads);
    case 16: return attend_all<16>(s, threads);
    default: return attend_all<0>(s, threads);
  }
}

// x += added, where there is something to add; out = weight * x / root mean square.
void add_norm(float* x, const float* added, const float* weight, float eps, float* out, long rows, long n,
              int threads) {
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (long row = 0; row < rows; row++) {
    float *at = x + row * n, *to = out + row * n;
    if (added)
      for (long i = 0; i < n; i++) at[i] += added[row * n + i];
    const float k = inverse_norm(at, n, eps);
    for (long i = 0; i < n; i++) to[i] = weight[i] * (at[i] * k);
  }
}

// The gradients of that norm without `added`; each thread adds those of the weight to n numbers of its own.
void norm_backward(const float* x, const float* weight, float eps, const float* grad, float* x_grad, float* weight_grads,
                   long rows, long n, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (long row = 0; row < rows; row++) {
    const float *from = x + row * n, *pull = grad + row * n;
    float *to = x_grad + row * n, *to_weight = weight_grads + omp_get_thread_num() * n;
    const float k = inverse_norm(from, n, eps);
    float along = 0;
#pragma omp simd reduction(+ : along)
    for (long i = 0; i < n; i++) along += pull[i] * weight[i] * from[i];
    along *= k * k * k / n;
    for (long i = 0; i < n; i++) {
      to[i] = pull[i] * weight[i] * k - from[i] * along;
      to_weight[i] += pull[i] * from[i] * k;
    }
  }
}

// out = silu(gate) * up, of which each row begins `stride` after the one before.
void silu_mul(const float* gate, const float* up, long stride, float* out, long rows, long n, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (long row = 0; row < rows; row++) {
    const float *left = gate + row * stride, *right = up + row * stride;
    by_lanes(n, EACH {
      const Lanes x = load(left + i, count);
      store(out + row * n + i, x * logistic(x) * load(right + i, count), count);
    });
  }
}

void silu_mul_backward(const float* gate, const float* up, const float* grad, float* gate_grad, float* up_grad, long rows,
                       long n, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (long row = 0; row < rows; row++) {
    const long at = row * n;
    by_lanes(n, EACH {
      const Lanes x = load(gate + at + i, count), pull = load(grad + at + i, count), share = logistic(x);
      store(up_grad + at + i, pull * x * share, count);
      store(gate_grad + at + i, pull * load(up + at + i, count) * share * (1.f + x * (1.f - share)), count);
    });
  }
}

// out = rotary(x), or its inverse for direction -1; x and out have `heads` of `width` in each row.
void rotary(const float* x, const float* cos, const float* sin, float direction, float* out, long rows, long heads,
            long width, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (long row = 0; row < rows; row++) {
    float turned[WIDEST];
    for (long i = 0; i < width; i++) turned[i] = sin[row * width + i] * direction;
    for (long at = row * heads * width; at < (row + 1) * heads * width; at += width)
      rotate(x + at, nullptr, 0.f, cos + row * width, turned, width, 1.f, out + at);
  }
}
}
