/* The numbers of GGUF's quantised blocks as float32. A block is small integers, with a scale or several in half precision
   (and with a minimum, in some types). Products and sums are done in the order in which the format's own library does
   them, so that every bit is the same.

   Called with ctypes; it needs nothing of Python's. In all of it, `at` are the bytes of one block and `out` its numbers. */

#include <stdint.h>
#include <string.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* One library for all processors of a kind: the widest vectors that the machine has are chosen when it is loaded. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define EVERY_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define EVERY_PROCESSOR
#endif
#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

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

/* 16 bytes hold 32 numbers of 4 bits: first all the lower halves, then all the upper ones. */

INLINE void scaled_nibbles(const uint8_t *at, float scale, int less, float *out) {
    for (int i = 0; i < 16; i++)
        out[i] = scale * (float)((at[i] & 15) - less);
    for (int i = 0; i < 16; i++)
        out[16 + i] = scale * (float)((at[i] >> 4) - less);
}

INLINE void q4_1(const uint8_t *at, float *out) {
    float scale = half_at(at), least = half_at(at + 2);
    for (int i = 0; i < 16; i++)
        out[i] = scale * (float)(at[4 + i] & 15) + least;
    for (int i = 0; i < 16; i++)
        out[16 + i] = scale * (float)(at[4 + i] >> 4) + least;
}

/* The fifth bit of each number stands in a word of 32 bits. */

INLINE void fifth_bits(const uint8_t *word, const uint8_t *nibbles, int *numbers) {
    uint32_t high = (uint32_t)word[0] | (uint32_t)word[1] << 8 | (uint32_t)word[2] << 16 | (uint32_t)word[3] << 24;
    for (int i = 0; i < 16; i++)
        numbers[i] = (nibbles[i] & 15) | (int)((high >> i & 1u) << 4);
    for (int i = 0; i < 16; i++)
        numbers[16 + i] = (nibbles[i] >> 4) | (int)((high >> (16 + i) & 1u) << 4);
}

INLINE void q5_0(const uint8_t *at, float *out) {
    int numbers[32];
    float scale = half_at(at);
    fifth_bits(at + 2, at + 6, numbers);
    for (int i = 0; i < 32; i++)
        out[i] = scale * (float)(numbers[i] - 16);
}

INLINE void q5_1(const uint8_t *at, float *out) {
    int numbers[32];
    float scale = half_at(at), least = half_at(at + 2);
    fifth_bits(at + 4, at + 8, numbers);
    for (int i = 0; i < 32; i++)
        out[i] = scale * (float)numbers[i] + least;
}

INLINE void q8_0(const uint8_t *at, float *out) {
    float scale = half_at(at);
    for (int i = 0; i < 32; i++)
        out[i] = (float)(int8_t)at[2 + i] * scale;
}

/* 64 bytes of pairs of bits: of every 32 bytes first the lowest pairs, then the next ones. Sixteen numbers share a scale. */

INLINE void q2_k(const uint8_t *at, float *out) {
    const uint8_t *scales = at, *pairs = at + 16;
    float scale = half_at(at + 80), least = half_at(at + 82);
    for (int group = 0; group < 16; group++) {
        const uint8_t *from = pairs + group / 8 * 32 + group % 2 * 16;
        int shift = group / 2 % 4 * 2;
        float step = scale * (float)(scales[group] & 15), low = least * (float)(scales[group] >> 4);
        for (int i = 0; i < 16; i++)
            out[group * 16 + i] = step * (float)(from[i] >> shift & 3) - low;
    }
}

INLINE void q3_k(const uint8_t *at, float *out) {
    const uint8_t *bits = at, *pairs = at + 32, *scales = at + 96;
    float scale = half_at(at + 108);
    for (int group = 0; group < 16; group++) {
        const uint8_t *from = pairs + group / 8 * 32 + group % 2 * 16, *high = bits + group % 2 * 16;
        int shift = group / 2 % 4 * 2, bit = group / 2;
        int low = group < 8 ? scales[group] & 15 : scales[group - 8] >> 4;
        float step = scale * (float)((low | (scales[8 + group % 4] >> group / 4 * 2 & 3) << 4) - 32);
        for (int i = 0; i < 16; i++)
            out[group * 16 + i] = step * (float)((from[i] >> shift & 3) - ((high[i] >> bit & 1) ^ 1) * 4);
    }
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

INLINE void q4_k(const uint8_t *at, float *out) {
    float scale = half_at(at), least = half_at(at + 2);
    for (int group = 0; group < 8; group++) {
        const uint8_t *from = at + 16 + group / 2 * 32;
        int step_of, least_of, shift = group % 2 * 4;
        scale_and_least(at + 4, group, &step_of, &least_of);
        float step = scale * (float)step_of, low = least * (float)least_of;
        for (int i = 0; i < 32; i++)
            out[group * 32 + i] = step * (float)(from[i] >> shift & 15) - low;
    }
}

INLINE void q5_k(const uint8_t *at, float *out) {
    const uint8_t *high = at + 16;
    float scale = half_at(at), least = half_at(at + 2);
    for (int group = 0; group < 8; group++) {
        const uint8_t *from = at + 48 + group / 2 * 32;
        int step_of, least_of, shift = group % 2 * 4;
        scale_and_least(at + 4, group, &step_of, &least_of);
        float step = scale * (float)step_of, low = least * (float)least_of;
        for (int i = 0; i < 32; i++)
            out[group * 32 + i] = step * (float)((from[i] >> shift & 15) | (high[i] >> group & 1) << 4) - low;
    }
}

INLINE void q6_k(const uint8_t *at, float *out) {
    const int8_t *scales = (const int8_t *)(at + 192);
    float scale = half_at(at + 208);
    for (int group = 0; group < 8; group++) {
        const uint8_t *from = at + group / 4 * 64 + group % 2 * 32, *high = at + 128 + group / 4 * 32;
        int shift = group / 2 % 2 * 4, pair = group % 4 * 2;
        float steps[2] = {scale * (float)scales[group * 2], scale * (float)scales[group * 2 + 1]};
        for (int half = 0; half < 2; half++)
            for (int i = half * 16; i < half * 16 + 16; i++)
                out[group * 32 + i] = steps[half] * (float)(((from[i] >> shift & 15) | (high[i] >> pair & 3) << 4) - 32);
    }
}

/* Numbers of a table, whose places in it are stored. */

INLINE void from_table(const int8_t *table, const uint8_t *at, float scale, float *out) {
    int8_t found[32];
#if defined(__GNUC__) && !defined(__clang__)
    typedef int8_t Sixteen __attribute__((vector_size(16)));
    Sixteen values, places, low, high;
    memcpy(&values, table, 16);
    memcpy(&places, at, 16);
    low = __builtin_shuffle(values, places & 15);
    high = __builtin_shuffle(values, (places >> 4) & 15);
    memcpy(found, &low, 16);
    memcpy(found + 16, &high, 16);
#else
    for (int i = 0; i < 16; i++) {
        found[i] = table[at[i] & 15];
        found[16 + i] = table[at[i] >> 4];
    }
#endif
    for (int i = 0; i < 32; i++)
        out[i] = scale * (float)found[i];
}

INLINE void iq4_xs(const uint8_t *at, float *out) {
    float scale = half_at(at);
    int high = at[2] | at[3] << 8;
    for (int group = 0; group < 8; group++) {
        int low = at[4 + group / 2] >> group % 2 * 4 & 15;
        float step = scale * (float)((low | (high >> 2 * group & 3) << 4) - 32);
        from_table(IQ4_VALUES, at + 8 + group * 16, step, out + group * 32);
    }
}

/* A power of two, half of what its exponent says, since the table has twice the numbers. */

INLINE float half_of_power(uint8_t exponent) {
    return float_of(exponent < 2 ? 0x00200000u << exponent : (uint32_t)(exponent - 1) << 23);
}

#define ALL(SIZE, NUMBERS, BODY)                                                                                       \
    for (int64_t block = 0; block < count; block++, at += (SIZE), out += (NUMBERS)) {                                  \
        BODY;                                                                                                          \
    }                                                                                                                  \
    return 0;

/* So many blocks of a type; 1 where the type is none of these. */
EXPORT EVERY_PROCESSOR int smelt_gguf_blocks(int32_t type, const uint8_t *at, int64_t count, float *out) {
    switch (type) {
    case Q4_0: ALL(18, 32, scaled_nibbles(at + 2, half_at(at), 8, out))
    case Q4_1: ALL(20, 32, q4_1(at, out))
    case Q5_0: ALL(22, 32, q5_0(at, out))
    case Q5_1: ALL(24, 32, q5_1(at, out))
    case Q8_0: ALL(34, 32, q8_0(at, out))
    case Q2_K: ALL(84, MANY, q2_k(at, out))
    case Q3_K: ALL(110, MANY, q3_k(at, out))
    case Q4_K: ALL(144, MANY, q4_k(at, out))
    case Q5_K: ALL(176, MANY, q5_k(at, out))
    case Q6_K: ALL(210, MANY, q6_k(at, out))
    case IQ4_NL: ALL(18, 32, from_table(IQ4_VALUES, at + 2, half_at(at), out))
    case IQ4_XS: ALL(136, MANY, iq4_xs(at, out))
    case MXFP4: ALL(17, 32, from_table(MXFP4_VALUES, at + 1, half_of_power(at[0]), out))
    default: return 1;
    }
}
