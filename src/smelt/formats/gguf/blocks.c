/* The numbers of GGUF's quantised blocks as float32. A block is small integers, with a scale or several in half precision
   (and with a minimum, in some types). Products and sums are done in the order in which the format's own library does
   them, so that every bit is the same.

   Called with ctypes; it needs nothing of Python's. */

#include <stdint.h>
#include <string.h>

/* Where compilers let functions have processors of their own, the widest vectors of the machine are used. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE_VECTORS
#include <immintrin.h>
#endif

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

#if !defined(__GNUC__)
#error "needs the vectors of GCC or Clang"
#endif
#define INLINE static inline __attribute__((always_inline))

enum {
    Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8, Q2_K = 10, Q3_K = 11, Q4_K = 12, Q5_K = 13, Q6_K = 14,
    IQ4_NL = 20, IQ4_XS = 23, MXFP4 = 39
};

#define MANY 256 /* numbers of a block of the types with K, and of IQ4_XS; all others have 32 */

static const int8_t IQ4_VALUES[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static const int8_t MXFP4_VALUES[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}; /* twice of each */

INLINE float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

INLINE float half_at(const uint8_t *at) {
    uint32_t half = (uint32_t)at[0] | (uint32_t)at[1] << 8, sign = (half & 0x8000u) << 16, size = half & 0x7fffu;
    float value = size < 0x7c00u ? float_of(size << 13) * 0x1p112f : float_of(0x7f800000u | size << 13);
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return float_of(bits | sign);
}

typedef uint8_t Bytes __attribute__((vector_size(16)));
typedef uint64_t Pair __attribute__((vector_size(16)));

INLINE Bytes bytes_at(const uint8_t *at) {
    Bytes found;
    memcpy(&found, at, 16);
    return found;
}

/* Eight scales and eight minima of 6 bits in 12 bytes: four and four whole ones with two bits to spare, which are the
   upper bits of the other four. */

INLINE void scale_and_least(const uint8_t *at, int group, int *scale, int *least) {
    if (group < 4) {
        *scale = at[group] & 63;
        *least = at[4 + group] & 63;
    } else {
        *scale = (at[4 + group] & 15) | (at[group - 4] >> 2 & 0x30);
        *least = (at[4 + group] >> 4) | (at[group] >> 2 & 0x30);
    }
}

/* A power of two, half of what its exponent says, since the table has twice the numbers. */

INLINE float half_of_power(uint8_t exponent) {
    return float_of(exponent < 2 ? 0x00200000u << exponent : (uint32_t)(exponent - 1) << 23);
}

/* The kernels, for each kind of processor by its own ways to make sixteen bytes sixteen numbers and write them:
   put          out = (numbers - less) * scale
   put_more     out = numbers * scale + more
   fifth_bits   16 for each of the sixteen bits that is set, else 0 */

INLINE void put_plain(Bytes numbers, int less, float scale, float *restrict out) {
    uint8_t held[16]; /* compilers make vectors of a loop over memory, and single numbers of a vector of bytes */
    memcpy(held, &numbers, 16);
#pragma GCC unroll 1
    for (int i = 0; i < 16; i++)
        out[i] = (float)(held[i] - less) * scale;
}

INLINE void put_more_plain(Bytes numbers, float scale, float more, float *restrict out) {
    uint8_t held[16];
    memcpy(held, &numbers, 16);
#pragma GCC unroll 1
    for (int i = 0; i < 16; i++)
        out[i] = (float)held[i] * scale + more;
}

/* Of a byte that is repeated eight times each keeps one bit, and what is not 0 carries into its uppermost one. */
INLINE Bytes fifth_bits_plain(const uint8_t *at) {
    Pair bytes = {at[0] * 0x0101010101010101u, at[1] * 0x0101010101010101u};
    Pair one_each = bytes & 0x8040201008040201u;
    return (Bytes)(((one_each + 0x7f7f7f7f7f7f7f7fu) & 0x8080808080808080u) >> 3);
}

#define OF_PROCESSOR(NAME) NAME##_plain
#include "blocks_kernels.h"
#undef OF_PROCESSOR

#if defined(WIDE_VECTORS)

#pragma GCC push_options
#pragma GCC target("avx2")

INLINE __m256 eight_less(__m128i numbers, int less) {
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_cvtepu8_epi32(numbers), _mm256_set1_epi32(less)));
}

INLINE void put_avx2(Bytes numbers, int less, float scale, float *out) {
    __m128i all = (__m128i)numbers;
    __m256 step = _mm256_set1_ps(scale);
    _mm256_storeu_ps(out, _mm256_mul_ps(eight_less(all, less), step));
    _mm256_storeu_ps(out + 8, _mm256_mul_ps(eight_less(_mm_srli_si128(all, 8), less), step));
}

INLINE void put_more_avx2(Bytes numbers, float scale, float more, float *out) {
    __m128i all = (__m128i)numbers;
    __m256 step = _mm256_set1_ps(scale), low = _mm256_set1_ps(more);
    _mm256_storeu_ps(out, _mm256_add_ps(_mm256_mul_ps(eight_less(all, 0), step), low));
    _mm256_storeu_ps(out + 8, _mm256_add_ps(_mm256_mul_ps(eight_less(_mm_srli_si128(all, 8), 0), step), low));
}

INLINE Bytes fifth_bits_avx2(const uint8_t *at) {
    const __m128i which = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    const __m128i each = _mm_set1_epi64x((int64_t)0x8040201008040201u);
    __m128i spread = _mm_shuffle_epi8(_mm_cvtsi32_si128(at[0] | at[1] << 8), which);
    return (Bytes)_mm_and_si128(_mm_cmpeq_epi8(_mm_and_si128(spread, each), each), _mm_set1_epi8(16));
}

#define OF_PROCESSOR(NAME) NAME##_avx2
#include "blocks_kernels.h"
#undef OF_PROCESSOR
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq")

INLINE __m512 sixteen_less(Bytes numbers, int less) {
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_cvtepu8_epi32((__m128i)numbers), _mm512_set1_epi32(less)));
}

INLINE void put_avx512(Bytes numbers, int less, float scale, float *out) {
    _mm512_storeu_ps(out, _mm512_mul_ps(sixteen_less(numbers, less), _mm512_set1_ps(scale)));
}

INLINE void put_more_avx512(Bytes numbers, float scale, float more, float *out) {
    __m512 scaled = _mm512_mul_ps(sixteen_less(numbers, 0), _mm512_set1_ps(scale));
    _mm512_storeu_ps(out, _mm512_add_ps(scaled, _mm512_set1_ps(more)));
}

INLINE Bytes fifth_bits_avx512(const uint8_t *at) {
    return (Bytes)_mm_maskz_set1_epi8((__mmask16)(at[0] | at[1] << 8), 16);
}

#define OF_PROCESSOR(NAME) NAME##_avx512
#include "blocks_kernels.h"
#undef OF_PROCESSOR
#pragma GCC pop_options

#endif

/* So many blocks of a type, with vectors of at most so many numbers (0: as many as the machine has); 1 where the type is
   none of these. */
EXPORT int smelt_gguf_blocks(int32_t type, const uint8_t *at, int64_t count, float *out, int32_t widest) {
#if defined(WIDE_VECTORS)
    int most = widest ? widest : 16;
    if (most >= 16 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
        return blocks_avx512(type, at, count, out);
    if (most >= 8 && __builtin_cpu_supports("avx2"))
        return blocks_avx2(type, at, count, out);
#else
    (void)widest;
#endif
    return blocks_plain(type, at, count, out);
}
