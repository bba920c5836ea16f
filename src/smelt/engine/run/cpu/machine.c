/* A small vector machine: runs a list of element-wise operations over the tensors of a merge, a few thousand elements at
   a time, so that everything between reading and writing stays in the first caches. Formats are converted on the way in
   and out; arithmetic is float32, in the order of the torch definitions, with a fused multiply-add where torch has one.

   Called with ctypes; it needs nothing of Python's. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#if !defined(_WIN32)
#include <errno.h>
#include <time.h>
#include <unistd.h>
#endif

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* One library for all processors of a kind: the widest vectors that the machine has are chosen when it is loaded, or where
   compiler or system cannot do that, at every call (WITH_FMA). Elsewhere a kind of processor has them or has not. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define EVERY_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define FOR_EVERY_PROCESSOR
#include <immintrin.h>
#else
#define EVERY_PROCESSOR
#if defined(__x86_64__) && defined(__GNUC__)
#define WITH_FMA __attribute__((target("avx2,fma,bmi,bmi2")))
#endif
#endif
#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

/* Registers lie this many numbers further apart than they are wide: at a distance of 4096 bytes all would want the same
   few places of the first cache. */
#define SPARE 16

enum { BF16 = 0, F16 = 1, F32 = 2 };

enum {
    LOAD = 0,      /* dst = tap a */
    STORE = 1,     /* out = a */
    SUBTRACT = 2,  /* dst = a - b */
    ADD = 3,       /* dst = a + b */
    MULTIPLY = 4,  /* dst = a * b */
    DIVIDE = 5,    /* dst = a / b */
    SCALE = 6,     /* dst = a * p */
    ADD_SCALED = 7,/* dst = fma(a, p, dst) */
    DIVIDE_BY = 8, /* dst = a / p */
    CUT = 9,       /* dst = a where |a| > p, else 0, but of those with |a| = q only the first `count`; dst is not a */
    DRAW = 10,     /* dst = 1 with chance p, else 0; `low`, `high`: counter and key */
    SIGN = 11,     /* dst = -1, 0 or 1 */
    SIGN_UP = 12,  /* the same, with 1 for 0 */
    AGREE = 13,    /* dst = max(a * b, 0) */
    LARGER = 14,   /* dst = max(a, b) */
    AT_LEAST = 15, /* dst = max(a, p) */
    NO_ZERO = 16,  /* dst = a, 1 where it is 0 */
    COARSE = 17,   /* counts of the upper 16 bits of |a| */
    FINE = 18,     /* the lower 15 bits of those |a| whose upper ones are `low`, appended */
    EQUAL = 19,    /* how many |a| have the bits `low` */
    DOT = 20,      /* sum += a . b */
    MASSES = 21,   /* two sums: of |a|, and of |a| where b is not 0 */
    SQUARE = 22,   /* dst = a * a */
    RANKS = 23,    /* dst = how many |a| of the row are smaller, and half of those equal to it */
    DRAW_RANKED = 24, /* dst = 1 with chance p + q * (rank + 1/2), else 0; `low`, `high`: counter and key */
    PACK = 25,     /* bits = whether a is not 0 */
    UNPACK = 26,   /* dst = 1 where a bit is set, else 0 */
    SHIFT = 27,    /* dst = a + p */
    BRACKET = 28,  /* of the |a|: how many are above `high`, equal it, or equal `low`; those inside are appended;
                      with p also how many are as good as zero */
    /* Several in one, for operations.py: what lies between them is not kept. */
    LOAD_LESS = 29,       /* dst = tap a - b */
    LOAD_CUT = 30,        /* dst = (tap a - b where its magnitude exceeds p, else 0) * q */
    LOAD_SCALED = 31,     /* dst = tap a * p */
    LOAD_ADD_SCALED = 32, /* dst = fma(tap a, p, dst) */
    LESS_ADD_SCALED = 33, /* dst = fma(tap a - b, p, dst) */
    CUT_SCALED = 34,      /* dst = (a where |a| > p, else 0) * q */
    SIGN_SUM = 35,        /* dst = sign of a + b */
    SIGN_SUM_UP = 36,     /* the same, with 1 for 0 */
    AGREE_INTO = 37,      /* x = max(a * b, 0): dst = fma(x, q, dst), register `low` = fma(sign of x, p, itself) */
    RATIO = 38,           /* dst = a / max(b, p) */
    PRODUCT = 39,         /* dst = (a * b) * p */
    STORE_SUM = 40,       /* out = a + b */
    DRAWN = 41,           /* dst = (a with chance p, else 0 * a) * q; `low`, `high` as for DRAW */
    DISTANCE = 42,        /* dst = (a - b) * (a - b) */
    DISTANCE_INTO = 43,   /* dst = dst + (a - b) * (a - b) */
    BAND = 44,            /* dst = (a where p < |a|, else 0) - (a where q < |a|, else 0) */
    ABOVE = 45,           /* dst = a where |a| > p, else 0 */
    DOTS = 46,            /* six sums: the products of a, b and register `low` with each other */
    CLAMP = 47,           /* dst = a, but no less than -p and no more than p */
    ROW_DOT = 48,         /* the sum of the row = a . b */
    ROW_SCALE = 49,       /* dst = a * the factor of the row */
    VARIANCE = 50,        /* dst = that of a, b and register `low` */
    WHERE = 51,           /* dst = a where |b| > p, else 0 */
    DRAWN_MASSES = 52,    /* two sums: of |a|, and of |a| with chance p; `low`, `high` as for DRAW */
    LESS_DRAWN = 53,      /* dst = (tap a - b with chance p, else 0 times it) * q; `low`, `high` as for DRAW */
    UNPACKED = 54,        /* dst = (a where a bit is set, else 0 * a) * q */
    AGREE_PLUS = 55,      /* dst = register `low` + max(a * b, 0) */
    STORE_PRODUCT = 56,   /* out = a * b + register `low` */
    WHERE_SQUARES = 57,   /* sum += a . a where |b| > p */
    KEEP_WHERE = 58,      /* dst = a where |b| > p, else 0 * a */
    ROW_DIVERGENCE = 59   /* the number of the row = how far b and a is from b; before the numbers is room for two rows */
};

typedef struct {
    int32_t code, dst, a, b;
    float p, q;
    int64_t count;    /* CUT: how many equal ones may stay; FINE, EQUAL, BRACKET: found so far; AGREE_INTO: 0 for the first */
    void *memory;     /* COARSE: uint32 counts; FINE: uint16 entries; DOT, DOTS, MASSES: doubles; PACK, UNPACK: bits; ranks: room; ROW_DOT, ROW_DIVERGENCE: doubles; ROW_SCALE: floats */
    uint32_t low;     /* FINE, EQUAL: the wanted bits; BRACKET: its lower end; DRAW: the counter of the first element; else THIRD */
    uint32_t high;    /* DRAW: the second half of the key; BRACKET: its upper end */
} Op;

typedef struct {
    const void *data;
    int64_t format;
    int64_t file;     /* smelt_run_files: a descriptor, and the byte from which its numbers are read into `data` */
    int64_t position;
    void *tree;       /* of the file's hash; 0 where what is read is not hashed */
} Tap;

/* Where results go, if anywhere: an open file, the byte of it that comes next, the tree of its hash, and a number that is
   1 while somebody writes to the file. */
typedef struct {
    int64_t file, position;
    void *tree;
    int32_t *busy;
    int64_t error; /* errno, where writing failed */
} Output;

/* How files are hashed: the functions for streams of blake3.c. */
typedef struct {
    void *(*open)(void *tree, int64_t start, int64_t end);
    void (*feed)(void *stream, const void *bytes, int64_t size);
    void (*close)(void *stream);
} Hasher;

INLINE uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

INLINE float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

/* Conversions of one number. `most` becomes the largest size met, so that one comparison tells whether all were finite:
   of the bits of what was read, or of what is written before it is rounded. */

#define BF16_END 0x7f80u
#define F16_END 0x7c00u
#define F32_END 0x7f800000u
#define TO_BF16_END 0x7f7f8000u /* this and more round to infinity */
#define TO_F16_END 0x477ff000u  /* 65520 */

INLINE float from_bf16(uint16_t half, uint16_t *most) {
    uint16_t size = half & 0x7fffu;
    *most = size > *most ? size : *most;
    return float_of((uint32_t)half << 16);
}

INLINE float from_f16(uint16_t given, uint16_t *most) {
    uint32_t half = given, sign = (half & 0x8000u) << 16;
    uint16_t size = given & 0x7fffu;
    *most = size > *most ? size : *most;
    float value = float_of((half & 0x7fffu) << 13) * 0x1p112f; /* right for subnormal numbers too */
    return float_of(bits_of(value) | sign);
}

INLINE float from_f32(float value, uint32_t *most) {
    uint32_t size = bits_of(value) & 0x7fffffffu;
    *most = size > *most ? size : *most;
    return value;
}

INLINE uint16_t to_bf16(float value, uint32_t *most) {
    uint32_t bits = bits_of(value), size = bits & 0x7fffffffu;
    *most = size > *most ? size : *most;
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

INLINE uint16_t to_f16(float value, uint32_t *most) {
    uint32_t bits = bits_of(value), sign = (bits >> 16) & 0x8000u, size = bits & 0x7fffffffu;
    *most = size > *most ? size : *most;
    /* A subnormal half: adding 1/2 shifts the wanted bits to the bottom, rounded to even. */
    uint32_t small = bits_of(float_of(size) + 0.5f) - 0x3f000000u;
    uint32_t normal = (size + 0xfffu + ((size >> 13) & 1u) - 0x38000000u) >> 13;
    uint32_t half = size < 0x38800000u ? small : normal;
    return (uint16_t)(half | sign);
}

INLINE float to_f32(float value, uint32_t *most) { return from_f32(value, most); }

/* The same for a number that is not finite, or will not be: infinity, or no number at all. */
INLINE uint16_t to_bf16_end(float value) {
    uint32_t bits = bits_of(value);
    uint32_t cut = (bits >> 16) | ((bits & 0x7fffffu) ? 0x40u : 0u);
    return (uint16_t)((bits & 0x7f800000u) == 0x7f800000u ? cut : (bits >> 31 << 15) | 0x7f80u);
}

INLINE uint16_t to_f16_end(float value) {
    uint32_t bits = bits_of(value);
    return (uint16_t)((bits >> 16 & 0x8000u) | ((bits & 0x7fffffffu) > 0x7f800000u ? 0x7e00u : 0x7c00u));
}

INLINE float to_f32_end(float value) { return value; }

INLINE void cut(float *restrict dst, const float *restrict a, int n, float above) {
    for (int i = 0; i < n; i++) dst[i] = fabsf(a[i]) > above ? a[i] : 0.0f;
}

/* Of the entries of this magnitude only the first `left` stay. */
INLINE int64_t cut_equal(float *restrict dst, const float *restrict a, int n, float value, int64_t left) {
    int i = 0;
    for (; i < n; i += 64) {
        const int end = n - i < 64 ? n : i + 64;
        uint32_t any = 0;
        for (int j = i; j < end; j++) any |= fabsf(a[j]) == value;
        for (int j = i; any && j < end; j++)
            if (fabsf(a[j]) == value && left-- <= 0) dst[j] = 0.0f;
    }
    return left < 0 ? 0 : left;
}

/* A number in [0, 1) that belongs to a counter, as in ops/random.py. */
INLINE int32_t mixed(uint32_t x, uint32_t between) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= between;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return (int32_t)x >> 8;
}

INLINE float uniform(uint32_t x, uint32_t between) { return (float)mixed(x, between) * 0x1p-24f + 0.5f; }

/* The number is a multiple of 2^-24, and below a chance if the integer is below this. */
INLINE int32_t below_chance(float chance) { return (int32_t)ceilf(chance * 0x1p24f) - (1 << 23); }

INLINE float drawn(uint32_t counter, uint32_t between, int32_t bound) {
    return mixed(counter, between) < bound ? 1.0f : 0.0f;
}

/* A number where it is kept, else 0 with its sign, as a product with 1 or 0 would be. */
INLINE float kept(float value, int is_kept) { return float_of(bits_of(value) & (is_kept ? 0xffffffffu : 0x80000000u)); }

INLINE void variance(float *restrict dst, const float *restrict a, const float *restrict b, const float *restrict c, int n) {
    for (int i = 0; i < n; i++) {
        float mean = (a[i] + b[i] + c[i]) / 3.0f, x = a[i] - mean, y = b[i] - mean, z = c[i] - mean;
        dst[i] = (x * x + y * y + z * z) / 3.0f;
    }
}

INLINE void agree_into(float *restrict sum, float *restrict shares, const float *restrict a, const float *restrict sign,
                       int n, float share, float weight, int is_first) {
    if (is_first) {
        for (int i = 0; i < n; i++) {
            float size = a[i] * sign[i] > 0.0f ? a[i] * sign[i] : 0.0f;
            sum[i] = fmaf(size, weight, 0.0f);
            shares[i] = fmaf(size > 0.0f ? 1.0f : 0.0f, share, 0.0f);
        }
        return;
    }
    for (int i = 0; i < n; i++) {
        float size = a[i] * sign[i] > 0.0f ? a[i] * sign[i] : 0.0f;
        sum[i] = fmaf(size, weight, sum[i]);
        shares[i] = fmaf(size > 0.0f ? 1.0f : 0.0f, share, shares[i]);
    }
}

INLINE void coarse(uint32_t *restrict counts, const float *restrict a, int n) {
    for (int i = 0; i < n; i++) counts[(bits_of(a[i]) & 0x7fffffffu) >> 15]++;
}

INLINE int64_t fine(uint16_t *restrict found, int64_t known, const float *restrict a, int n, uint32_t low) {
    uint32_t wanted = low >> 15;
    int i = 0;
    for (; i + 32 <= n; i += 32) {
        uint32_t any = 0;
        for (int j = 0; j < 32; j++) any |= ((bits_of(a[i + j]) & 0x7fffffffu) >> 15) == wanted;
        if (!any) continue;
        for (int j = 0; j < 32; j++) {
            uint32_t bits = bits_of(a[i + j]) & 0x7fffffffu;
            if (bits >> 15 == wanted) found[known++] = (uint16_t)(bits & 0x7fffu);
        }
    }
    for (; i < n; i++) {
        uint32_t bits = bits_of(a[i]) & 0x7fffffffu;
        if (bits >> 15 == wanted) found[known++] = (uint16_t)(bits & 0x7fffu);
    }
    return known;
}

/* The number of the lowest bit that is set. */
INLINE int lowest_bit(uint32_t bits) {
#if defined(__GNUC__)
    return __builtin_ctz(bits);
#else
    int number = 0;
    for (; !(bits & 1); bits >>= 1) number++;
    return number;
#endif
}

/* What a bracket has met so far. */
typedef struct {
    int64_t above, top, bottom, tiny;
    uint32_t inside[];
} Met;

INLINE int64_t bracket(Met *met, int64_t known, const float *restrict a, int n, uint32_t low, uint32_t high, int zeros) {
    const uint32_t wide = high > low ? high - low - 1 : 0;
    uint32_t above = 0, top = 0, bottom = 0, tiny = 0;
    for (int i = 0; i < n; i++) {
        uint32_t bits = bits_of(a[i]) & 0x7fffffffu;
        above += bits > high;
        top += bits == high;
    }
    if (low != high)
        for (int i = 0; i < n; i++) bottom += (bits_of(a[i]) & 0x7fffffffu) == low;
    if (zeros)
        for (int i = 0; i < n; i++) tiny += (bits_of(a[i]) & 0x7fffffffu) < 0x8000u;
    /* Few are inside. Every 64th number has its bit in the same word, so that no sum goes across a vector. */
    int from = 0;
    for (; wide && from + 64 <= n; from += 2048) {
        const float *part = a + from;
        const int rounds = n - from < 2048 ? (n - from) / 64 : 32;
        uint32_t inside[64] = {0};
        for (int r = 0; r < rounds; r++)
            for (int g = 0; g < 64; g++)
                inside[g] |= (uint32_t)((bits_of(part[64 * r + g]) & 0x7fffffffu) - low - 1 < wide) << r;
        for (int g = 0; g < 64; g++) {
            for (uint32_t left = inside[g]; left; left &= left - 1)
                met->inside[known++] = bits_of(part[64 * lowest_bit(left) + g]) & 0x7fffffffu;
        }
    }
    for (int i = n - n % 64; wide && i < n; i++) {
        uint32_t bits = bits_of(a[i]) & 0x7fffffffu;
        if (bits - low - 1 < wide) met->inside[known++] = bits;
    }
    met->above += above;
    met->top += top;
    met->bottom += bottom;
    met->tiny += tiny;
    return known;
}

/* Sums are kept in sixteen float64 lanes: the order is the same for every processor. */
INLINE double sum_of(const double *lanes) {
    double sum = 0.0;
    for (int j = 0; j < 16; j++) sum += lanes[j];
    return sum;
}

INLINE double dot(const float *restrict a, const float *restrict b, int n) {
    double lanes[16] = {0};
    int i = 0;
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++) lanes[j] += (double)a[i + j] * (double)b[i + j];
    for (int j = 0; i < n; i++, j++) lanes[j] += (double)a[i] * (double)b[i];
    return sum_of(lanes);
}

/* The same with itself, which is read once. */
INLINE double square_sum(const float *restrict a, int n) {
    double lanes[16] = {0};
    int i = 0;
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++) {
            double x = a[i + j];
            lanes[j] += x * x;
        }
    for (int j = 0; i < n; i++, j++) lanes[j] += (double)a[i] * (double)a[i];
    return sum_of(lanes);
}

/* The same of those where |b| is larger than p. */
INLINE double where_squares(const float *restrict a, const float *restrict b, int n, float above) {
    double lanes[16] = {0};
    int i = 0;
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++) {
            double x = float_of(bits_of(a[i + j]) & (fabsf(b[i + j]) > above ? 0xffffffffu : 0u));
            lanes[j] += x * x;
        }
    for (int j = 0; i < n; i++, j++) lanes[j] += fabsf(b[i]) > above ? (double)a[i] * (double)a[i] : 0.0;
    return sum_of(lanes);
}

/* The products of three rows with each other, each as `dot` has it: aa, ab, bb, ac, bc, cc. */
INLINE void dots(double *sums, const float *restrict a, const float *restrict b, const float *restrict c, int n) {
    double lanes[6][16] = {{0}};
    for (int i = 0; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++) {
            double x = a[i + j], y = b[i + j], z = c[i + j];
            lanes[0][j] += x * x;
            lanes[1][j] += x * y;
            lanes[2][j] += y * y;
            lanes[3][j] += x * z;
            lanes[4][j] += y * z;
            lanes[5][j] += z * z;
        }
    for (int j = 0, i = n - n % 16; i < n; i++, j++) {
        double x = a[i], y = b[i], z = c[i], products[6] = {x * x, x * y, y * y, x * z, y * z, z * z};
        for (int k = 0; k < 6; k++) lanes[k][j] += products[k];
    }
    for (int k = 0; k < 6; k++) sums[k] += sum_of(lanes[k]);
}

/* The sum of magnitudes, and of those that `kept` keeps. Two loops: compilers do not vectorise the two in one. */
INLINE void masses(double *sums, const float *restrict a, const float *restrict kept, int n) {
    double all[16] = {0}, left[16] = {0};
    int i = 0;
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++) all[j] += (double)fabsf(a[i + j]);
    for (int j = 0; i < n; i++, j++) all[j] += (double)fabsf(a[i]);
    for (i = 0; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++)
            left[j] += (double)float_of(bits_of(a[i + j]) & (kept[i + j] != 0.0f ? 0x7fffffffu : 0u));
    for (int j = 0; i < n; i++, j++) left[j] += (double)(kept[i] != 0.0f ? fabsf(a[i]) : 0.0f);
    sums[0] += sum_of(all);
    sums[1] += sum_of(left);
}

/* The same of what is drawn. */
INLINE void drawn_masses(double *sums, const float *restrict a, int n, uint32_t counter, uint32_t between, int32_t bound) {
    double all[16] = {0}, left[16] = {0};
    int i = 0;
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++) {
            double x = fabsf(a[i + j]);
            all[j] += x;
            left[j] += mixed(counter + (uint32_t)(i + j), between) < bound ? x : 0.0;
        }
    for (int j = 0; i < n; i++, j++) {
        double x = fabsf(a[i]);
        all[j] += x;
        left[j] += mixed(counter + (uint32_t)i, between) < bound ? x : 0.0;
    }
    sums[0] += sum_of(all);
    sums[1] += sum_of(left);
}

#include "divergence.h"

/* The magnitudes of a row, sorted into bins but not within them. */
typedef struct {
    uint32_t *begin;   /* where each bin begins; one more at the end */
    uint32_t *members; /* the bits of their magnitudes, bin after bin */
    uint32_t *bin;     /* of each entry */
} Bins;

/* Which magnitudes share a bin. */
typedef struct {
    uint32_t least, shift;
} Bounds;

INLINE Bounds bin_bounds(const float *restrict a, int n, uint32_t count) {
    uint32_t most = 0, shift = 0;
    for (int i = 0; i < n; i++) {
        uint32_t bits = bits_of(a[i]) & 0x7fffffffu;
        most = bits > most ? bits : most;
    }
    /* Fifteen octaves below the largest magnitude are told apart; all that is smaller shares the first bin. */
    uint32_t least = most > (15u << 23) ? most - (15u << 23) : 0;
    while (((most - least) >> shift) + 1 >= count) shift++;
    return (Bounds){least, shift};
}

INLINE uint32_t bin_of(uint32_t bits, const Bounds *bounds) {
    return bits < bounds->least ? 0 : ((bits - bounds->least) >> bounds->shift) + 1;
}

/* There is room for 5 n + 96 numbers, of which this takes four. */
INLINE Bins into_bins(const float *restrict a, int n, uint32_t *room) {
    Bins bins = {room, room + 2 * n + 1, room + 3 * n + 1};
    uint32_t *restrict begin = bins.begin, *restrict bin = bins.bin, count = 2 * (uint32_t)n;
    const Bounds bounds = bin_bounds(a, n, count);
    for (int i = 0; i < n; i++) bin[i] = bin_of(bits_of(a[i]) & 0x7fffffffu, &bounds);
    memset(begin, 0, sizeof(uint32_t) * (count + 1));
    for (int i = 0; i < n; i++) begin[bin[i]]++;
    for (uint32_t i = 1; i <= count; i++) begin[i] += begin[i - 1];
    for (int i = 0; i < n; i++) bins.members[--begin[bin[i]]] = bits_of(a[i]) & 0x7fffffffu;
    return bins;
}

/* How many of the row are smaller, and how many are equal. */
INLINE void rank_of(const Bins *bins, const float *a, int i, uint32_t *smaller, uint32_t *equal) {
    uint32_t bits = bits_of(a[i]) & 0x7fffffffu, from = bins->begin[bins->bin[i]], to = bins->begin[bins->bin[i] + 1];
    uint32_t below = from, same = 0;
    for (uint32_t k = from; k < to; k++) {
        below += bins->members[k] < bits;
        same += bins->members[k] == bits;
    }
    *smaller = below;
    *equal = same;
}

INLINE void ranks(float *restrict dst, const float *restrict a, int n, uint32_t *room) {
    Bins bins = into_bins(a, n, room);
    for (int i = 0; i < n; i++) {
        uint32_t smaller, equal;
        rank_of(&bins, a, i, &smaller, &equal);
        dst[i] = (float)(2 * smaller + equal) / 2.0f;
    }
}

/* How many of the row are smaller than a magnitude, and how many have it. */
INLINE void rank_in(const float *restrict a, int n, uint32_t bits, uint32_t *smaller, uint32_t *equal) {
    uint32_t below = 0, same = 0;
    for (int i = 0; i < n; i++) {
        below += (bits_of(a[i]) & 0x7fffffffu) < bits;
        same += (bits_of(a[i]) & 0x7fffffffu) == bits;
    }
    *smaller = below;
    *equal = same;
}

/* The numbers of those that are not below 0, and how many they are. There is room for sixteen more. */
#if defined(FOR_EVERY_PROCESSOR)
__attribute__((target("avx512f"))) static uint32_t not_below_512(uint32_t *restrict found, const int32_t *restrict a, int n) {
    uint32_t count = 0;
    __m512i number = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        const __mmask16 these = _mm512_cmpge_epi32_mask(_mm512_loadu_si512(a + i), _mm512_setzero_si512());
        _mm512_storeu_si512(found + count, _mm512_maskz_compress_epi32(these, number));
        count += (uint32_t)__builtin_popcount(these);
        number = _mm512_add_epi32(number, _mm512_set1_epi32(16));
    }
    for (; i < n; i++)
        if (a[i] >= 0) found[count++] = (uint32_t)i;
    return count;
}
#endif

INLINE uint32_t not_below(uint32_t *restrict found, const int32_t *restrict a, int n) {
#if defined(FOR_EVERY_PROCESSOR)
    if (__builtin_cpu_supports("avx512f")) return not_below_512(found, a, n);
#endif
    uint32_t count = 0;
    for (int i = 0; i < n; i++) {
        found[count] = (uint32_t)i;
        count += a[i] >= 0;
    }
    return count;
}

/* Bins of which every second one holds a single magnitude: even ones those at the edge of a stretch, odd ones the inside
   of it. Differences of half-precision numbers have few digits, so that most lie at an edge. Bins lie in sixteen columns
   of `1 << rows` and one more, so that those of all columns are summed at once: after a bin lies the next, 16 further. */
INLINE void edged_bins(uint16_t *restrict bin, const float *restrict a, int n, int rows) {
    const Bounds bounds = bin_bounds(a, n, 8u << rows);
    const uint32_t inside = (1u << bounds.shift) - 1, least = bounds.least & ~inside, shift = bounds.shift;
    const uint32_t column = (1u << rows) - 1;
    for (int i = 0; i < n; i++) {
        const uint32_t bits = bits_of(a[i]) & 0x7fffffffu;
        const uint32_t edge = bits < least ? 0 : 2 + ((bits - least) >> shift << 1);
        const uint32_t b = edge + ((bits & (bits < least ? ~0u : inside)) != 0);
        bin[i] = (uint16_t)((b & column) << 4 | b >> rows);
    }
}

/* From counts in two parts, each 16 after its bin, to how many entries are in the bins before each. */
INLINE void begin_bins(uint32_t *restrict begin, const uint32_t *restrict more, int rows) {
    const int last = 16 << rows;
    uint32_t columns[16], before = 0;
    for (int i = 16; i < last + 16; i++) begin[i] += more[i] + begin[i - 16];
    for (int c = 0; c < 16; c++) {
        columns[c] = before;
        before += begin[last + c];
    }
    for (int i = 0; i < last + 16; i += 16)
        for (int c = 0; c < 16; c++) begin[i + c] += columns[c];
}

/* An entry stays if its rank exceeds (u - lowest) / step, u uniform. Most u lie beyond all ranks and decide at once; of
   the others a rank must be known only where that number, which `at` has to within one, falls into the entry's own bin.
   Of entries of equal magnitude the half stays for which its fraction is below 1/2. Nothing may branch on what chance
   decides: what is left to do is written down, and counted. There is room for 5 n + 96 numbers. */
INLINE void draw_ranked(float *restrict dst, const float *restrict a, int n, uint32_t counter, uint32_t between,
                        float lowest, float step, uint32_t *room) {
    int rows = 1;
    while (64 << rows <= n) rows++;
    const uint32_t count = 16 * ((1u << rows) + 1); /* at most n / 2 + 16 */
    uint32_t *restrict open = room, *restrict begin = open + n + 16, *restrict more = begin + count, unsure = 0;
    uint32_t *restrict asked = more + count, *restrict smaller = asked + count, *restrict equal = smaller + count;
    int32_t *restrict at = (int32_t *)(equal + count);
    uint16_t *restrict bin = (uint16_t *)(at + n);
    const int32_t sure = below_chance(lowest);
    const uint32_t wide = (uint32_t)(step * (float)n * 1.001f * 0x1p24f) + 2; /* a little more than all ranks take */
    const float steps = 0x1p-24f / step < 1e30f ? 0x1p-24f / step : 1e30f, most = (float)n;
    for (int i = 0; i < n; i++) {
        const int32_t drawn = mixed(counter + (uint32_t)i, between) - sure;
        const float near = (float)drawn * steps < most ? (float)drawn * steps : most;
        at[i] = (uint32_t)drawn < wide ? (int32_t)near : -1;
        dst[i] = drawn < 0 ? 1.0f : 0.0f;
    }
    edged_bins(bin, a, n, rows);
    memset(begin, 0, sizeof(uint32_t) * 2 * count);
    memset(asked, 0xff, sizeof(uint32_t) * count);
    for (int i = 0; i + 2 <= n; i += 2) { /* a count is not read again just after it was written */
        begin[bin[i] + 16]++;
        more[bin[i + 1] + 16]++;
    }
    if (n % 2) begin[bin[n - 1] + 16]++;
    begin_bins(begin, more, rows);
    const uint32_t opened = not_below(open, at, n);
    for (uint32_t k = 0; k < opened; k++) {
        const uint32_t i = open[k], from = begin[bin[i]], to = begin[bin[i] + 16], near = (uint32_t)at[i] + 1;
        dst[i] = float_of((0u - (near < from)) & 0x3f800000u);
        open[unsure] = i;
        unsure += near - from < to - from + 2;
    }
    for (uint32_t k = 0; k < unsure; k++) {
        const uint32_t i = open[k], b = bin[i], bits = bits_of(a[i]) & 0x7fffffffu;
        if ((b >> 4) % 2 == 0) {
            smaller[b] = begin[b];
            equal[b] = begin[b + 16] - begin[b];
        } else if (asked[b] != bits) { /* the last one asked for there */
            asked[b] = bits;
            rank_in(a, n, bits, smaller + b, equal + b);
        }
        const float exact = (uniform(counter + i, between) - lowest) / step;
        const uint32_t whole = exact < (float)n ? (uint32_t)exact : (uint32_t)n; /* not below 0 */
        const uint32_t kept = whole < smaller[b] || (whole < smaller[b] + equal[b] && 0.5f - (exact - (float)whole) > 0.0f);
        dst[i] = float_of((0u - kept) & 0x3f800000u);
    }
}

/* Eight numbers make a byte, the first its highest bit; a row may begin inside one. Most go by four bytes at once. */
INLINE void pack(uint8_t *restrict bits, const float *restrict a, int n, int64_t at) {
    int i = 0;
    if (at % 8 == 0)
        for (; i + 32 <= n; i += 32) {
            uint8_t *restrict four = bits + ((at + i) >> 3);
            uint32_t word = 0;
            for (int k = 0; k < 32; k++) word |= (uint32_t)(a[i + k] != 0.0f) << (31 - k);
            for (int k = 0; k < 4; k++) four[k] = (uint8_t)(word >> (24 - 8 * k));
        }
    for (; i < n; i++) bits[(at + i) >> 3] |= (uint8_t)((uint32_t)(a[i] != 0.0f) << (7 - ((at + i) & 7)));
}

INLINE void unpack(float *restrict dst, const uint8_t *restrict bits, int n, int64_t at) {
    int i = 0;
    if (at % 8 == 0)
        for (; i + 32 <= n; i += 32) {
            const uint8_t *restrict four = bits + ((at + i) >> 3);
            const uint32_t word = (uint32_t)four[0] << 24 | (uint32_t)four[1] << 16 | (uint32_t)four[2] << 8 | four[3];
            for (int k = 0; k < 32; k++) dst[i + k] = (float)((int32_t)(word >> (31 - k)) & 1);
        }
    for (; i < n; i++) dst[i] = (float)((bits[(at + i) >> 3] >> (7 - ((at + i) & 7))) & 1);
}

INLINE void unpacked(float *restrict dst, const float *restrict a, const uint8_t *restrict bits, int n, int64_t at, float factor) {
    int i = 0;
    if (at % 8 == 0)
        for (; i + 32 <= n; i += 32) {
            const uint8_t *restrict four = bits + ((at + i) >> 3);
            const uint32_t word = (uint32_t)four[0] << 24 | (uint32_t)four[1] << 16 | (uint32_t)four[2] << 8 | four[3];
            for (int k = 0; k < 32; k++) dst[i + k] = kept(a[i + k], (int)(word >> (31 - k)) & 1) * factor;
        }
    for (; i < n; i++) dst[i] = kept(a[i], (bits[(at + i) >> 3] >> (7 - ((at + i) & 7))) & 1) * factor;
}

/* Registers may be the same one: every place is read before it is written. */
#if defined(__GNUC__) && !defined(__clang__)
#define APART _Pragma("GCC ivdep")
#else
#define APART
#endif
#define EACH(expression)                                                                                               \
    APART for (int i = 0; i < n; i++) d[i] = (expression);                                                             \
    break

#define FROM(type, size, convert, end, value)                                                                          \
    {                                                                                                                  \
        const type *s = (const type *)taps[op->a].data + at;                                                           \
        size most = 0;                                                                                                 \
        APART for (int i = 0; i < n; i++) {                                                                            \
            float x = convert(s[i], &most);                                                                            \
            d[i] = (value);                                                                                            \
        }                                                                                                              \
        return most >= end ? 1 : 0;                                                                                    \
    }
#define LOADED(value)                                                                                                  \
    if (taps[op->a].format == BF16)                                                                                    \
        FROM(uint16_t, uint16_t, from_bf16, BF16_END, value)                                                           \
    else if (taps[op->a].format == F16)                                                                                \
        FROM(uint16_t, uint16_t, from_f16, F16_END, value)                                                             \
    else                                                                                                               \
        FROM(float, uint32_t, from_f32, F32_END, value)
#define TO(type, convert, end, value)                                                                                  \
    {                                                                                                                  \
        type *s = (type *)out + at;                                                                                    \
        uint32_t most = 0;                                                                                             \
        APART for (int i = 0; i < n; i++) s[i] = convert((value), &most);                                              \
        if (most < end) return 0;                                                                                      \
        for (int i = 0; i < n; i++)                                                                                    \
            if ((bits_of(value) & 0x7fffffffu) >= end) s[i] = convert##_end(value);                                    \
        return 2;                                                                                                      \
    }
#define STORED(value)                                                                                                  \
    if (out_format == BF16)                                                                                            \
        TO(uint16_t, to_bf16, TO_BF16_END, value)                                                                      \
    else if (out_format == F16)                                                                                        \
        TO(uint16_t, to_f16, TO_F16_END, value)                                                                        \
    else                                                                                                               \
        TO(float, to_f32, F32_END, value)

#define THIRD (registers + (int64_t)op->low * (width + SPARE)) /* the register of operations that have one more */

INLINE int64_t one(Op *op, const Tap *taps, void *out, int out_format, float *registers, int width,
                   int64_t before, int64_t at, int n) {
    float *d = registers + (int64_t)op->dst * (width + SPARE);
    const float *a = registers + (int64_t)op->a * (width + SPARE), *b = registers + (int64_t)op->b * (width + SPARE);
    const float p = op->p, q = op->q;
    switch (op->code) {
    case LOAD: LOADED(x)
    case LOAD_LESS: LOADED(x - b[i])
    case LOAD_CUT: LOADED((fabsf(x - b[i]) > p ? x - b[i] : 0.0f) * q)
    case LOAD_SCALED: LOADED(x * p)
    case LOAD_ADD_SCALED: LOADED(fmaf(x, p, d[i]))
    case LESS_ADD_SCALED: LOADED(fmaf(x - b[i], p, d[i]))
    case STORE: STORED(a[i])
    case STORE_SUM: STORED(a[i] + b[i])
    case STORE_PRODUCT: {
        const float *c = THIRD;
        STORED(a[i] * b[i] + c[i])
    }
    case SUBTRACT: EACH(a[i] - b[i]);
    case ADD: EACH(a[i] + b[i]);
    case MULTIPLY: EACH(a[i] * b[i]);
    case DIVIDE: EACH(a[i] / b[i]);
    case SCALE: EACH(a[i] * p);
    case ADD_SCALED: EACH(fmaf(a[i], p, d[i]));
    case DIVIDE_BY: EACH(a[i] / p);
    case SIGN: EACH((float)((a[i] > 0.0f) - (a[i] < 0.0f)));
    case SIGN_UP: EACH(a[i] < 0.0f ? -1.0f : 1.0f);
    case AGREE: EACH(a[i] * b[i] > 0.0f ? a[i] * b[i] : 0.0f);
    case AGREE_PLUS: {
        const float *c = THIRD;
        EACH(c[i] + (a[i] * b[i] > 0.0f ? a[i] * b[i] : 0.0f));
    }
    case LARGER: EACH(a[i] > b[i] ? a[i] : b[i]);
    case AT_LEAST: EACH(a[i] > p ? a[i] : p);
    case NO_ZERO: EACH(a[i] == 0.0f ? 1.0f : a[i]);
    case SQUARE: EACH(a[i] * a[i]);
    case SHIFT: EACH(a[i] + p);
    case ABOVE: cut(d, a, n, p); break;
    case CUT_SCALED: EACH((fabsf(a[i]) > p ? a[i] : 0.0f) * q);
    case SIGN_SUM: EACH((float)((a[i] + b[i] > 0.0f) - (a[i] + b[i] < 0.0f)));
    case SIGN_SUM_UP: EACH(a[i] + b[i] < 0.0f ? -1.0f : 1.0f);
    case AGREE_INTO:
        agree_into(d, THIRD, a, b, n, p, q, op->count == 0);
        break;
    case RATIO: EACH(a[i] / (b[i] > p ? b[i] : p));
    case PRODUCT: EACH((a[i] * b[i]) * p);
    case DRAWN: {
        const uint32_t counter = op->low + (uint32_t)(before + at), between = op->high;
        const int32_t bound = below_chance(p);
        EACH(kept(a[i], mixed(counter + (uint32_t)i, between) < bound) * q);
    }
    case LESS_DRAWN: {
        const uint32_t counter = op->low + (uint32_t)(before + at), between = op->high;
        const int32_t bound = below_chance(p);
        LOADED(kept(x - b[i], mixed(counter + (uint32_t)i, between) < bound) * q)
    }
    case DRAWN_MASSES:
        drawn_masses((double *)op->memory, a, n, op->low + (uint32_t)(before + at), op->high, below_chance(p));
        break;
    case DISTANCE: EACH((a[i] - b[i]) * (a[i] - b[i]));
    case DISTANCE_INTO: EACH(d[i] + (a[i] - b[i]) * (a[i] - b[i]));
    case BAND: EACH((fabsf(a[i]) > p ? a[i] : 0.0f) - (fabsf(a[i]) > q ? a[i] : 0.0f));
    case CUT:
        cut(d, a, n, p);
        op->count = cut_equal(d, a, n, q, op->count);
        break;
    case DRAW: {
        const uint32_t counter = op->low + (uint32_t)(before + at), between = op->high;
        const int32_t bound = below_chance(p);
        EACH(drawn(counter + (uint32_t)i, between, bound));
    }
    case RANKS: ranks(d, a, n, (uint32_t *)op->memory); break;
    case DRAW_RANKED:
        draw_ranked(d, a, n, op->low + (uint32_t)(before + at), op->high, p, op->q, (uint32_t *)op->memory);
        break;
    case PACK: pack((uint8_t *)op->memory, a, n, before + at); break;
    case UNPACK: unpack(d, (const uint8_t *)op->memory, n, before + at); break;
    case UNPACKED: unpacked(d, a, (const uint8_t *)op->memory, n, before + at, q); break;
    case COARSE: coarse((uint32_t *)op->memory, a, n); break;
    case FINE: op->count = fine((uint16_t *)op->memory, op->count, a, n, op->low); break;
    case BRACKET: op->count = bracket((Met *)op->memory, op->count, a, n, op->low, op->high, p != 0.0f); break;
    case EQUAL:
        for (int i = 0; i < n; i++) op->count += (bits_of(a[i]) & 0x7fffffffu) == op->low;
        break;
    case DOT: *(double *)op->memory += a == b ? square_sum(a, n) : dot(a, b, n); break;
    case DOTS: dots((double *)op->memory, a, b, THIRD, n); break;
    case VARIANCE: variance(d, a, b, THIRD, n); break;
    case WHERE: EACH(float_of(bits_of(a[i]) & (fabsf(b[i]) > p ? 0xffffffffu : 0u)));
    case WHERE_SQUARES: *(double *)op->memory += where_squares(a, b, n, p); break;
    case CLAMP: EACH(a[i] < -p ? -p : a[i] > p ? p : a[i]);
    case ROW_DOT: ((double *)op->memory)[(before + at) / width] = dot(a, b, n); break;
    case ROW_DIVERGENCE: ((double *)op->memory)[2 * width + (before + at) / width] = divergence(a, b, n, (double *)op->memory); break;
    case KEEP_WHERE: EACH(kept(a[i], fabsf(b[i]) > p));
    case ROW_SCALE: {
        const float factor = ((const float *)op->memory)[(before + at) / width];
        EACH(a[i] * factor);
    }
    case MASSES: masses((double *)op->memory, a, b, n); break;
    }
    return 0;
}

INLINE int64_t run(Op *ops, int64_t n_ops, const Tap *taps, void *out, int64_t out_format, float *registers, int64_t width,
                   int64_t before, int64_t count) {
    for (int64_t at = 0; at < count; at += width) {
        int n = (int)(count - at < width ? count - at : width);
        for (int64_t k = 0; k < n_ops; k++) {
            int64_t fault = one(ops + k, taps, out, (int)out_format, registers, (int)width, before, at, n);
            if (fault) return fault;
        }
    }
    return 0;
}

#if defined(WITH_FMA)
WITH_FMA static int64_t run_with_fma(Op *ops, int64_t n_ops, const Tap *taps, void *out, int64_t out_format, float *registers,
                                     int64_t width, int64_t before, int64_t count) {
    return run(ops, n_ops, taps, out, out_format, registers, width, before, count);
}
#endif

/* Run `ops` over `count` elements, `width` at a time, of a span of which `before` have been run already: 0, or 1 where an
   input is not finite, or 2 where a result is not. Operations on rows want rows of `width`. */
EXPORT EVERY_PROCESSOR int64_t smelt_run(Op *ops, int64_t n_ops, const Tap *taps, void *out, int64_t out_format,
                                         float *registers, int64_t width, int64_t before, int64_t count) {
#if defined(WITH_FMA)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
        return run_with_fma(ops, n_ops, taps, out, out_format, registers, width, before, count);
#endif
    return run(ops, n_ops, taps, out, out_format, registers, width, before, count);
}

/* Which vector instructions it works with here: 4 AVX-512, 3 AVX2, 2 NEON, 1 SSE2, 0 unknown. `smelt info` tells it. */
EXPORT int64_t smelt_instructions(void) {
#if defined(FOR_EVERY_PROCESSOR)
    if (__builtin_cpu_supports("x86-64-v4")) return 4;
    return __builtin_cpu_supports("x86-64-v3") ? 3 : 1;
#elif defined(WITH_FMA)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") ? 3 : 1;
#elif defined(__aarch64__) || defined(_M_ARM64)
    return 2;
#elif defined(__x86_64__) || defined(_M_X64)
    return 1;
#else
    return 0;
#endif
}

/* The rest reads files. On Windows a library does not know Python's descriptors, and is given what was read. */
#if !defined(_WIN32)
INLINE int64_t size_of(int64_t format) { return format == F32 ? 4 : 2; }

static int filled(char *room, int64_t size, int64_t file, int64_t position) {
    while (size > 0) {
        ssize_t got = pread((int)file, room, (size_t)size, (off_t)position);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return 0;
        room += got, position += got, size -= got;
    }
    return 1;
}

static int written(const char *bytes, int64_t size, Output *output) {
    while (size > 0) {
        ssize_t put = pwrite((int)output->file, bytes, (size_t)size, (off_t)output->position);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) {
            output->error = put ? errno : ENOSPC;
            return 0;
        }
        bytes += put, output->position += put, size -= put;
    }
    return 1;
}

/* A file system lets one thread at a time write to a file, and lets others burn their cores while they wait. So whoever
   finds a file busy works on, unless it `must` write now, and then sleeps: 0 where it wrote nothing. */
static int may_write(const Output *output, int must) {
    if (!output->busy) return 1;
    while (__atomic_exchange_n(output->busy, 1, __ATOMIC_ACQUIRE)) {
        if (!must) return 0;
        const struct timespec a_moment = {0, 30000};
        nanosleep(&a_moment, 0);
    }
    return 1;
}

static void end_write(const Output *output) {
    if (output->busy) __atomic_store_n(output->busy, 0, __ATOMIC_RELEASE);
}

#define MOST_TAPS 64 /* of further ones nothing is hashed here */

/* The same with numbers that are read from files, `piece` at a time into the taps' rooms, where they stay in the cache until
   they have been hashed and worked on. Results go to `out`, which has room for all, and with an `output` are hashed and
   written from there. 3 where a file could not be read as far as wanted, 4 where one could not be written. */
EXPORT int64_t smelt_run_files(Op *ops, int64_t n_ops, Tap *taps, int64_t n_taps, char *out, int64_t out_format,
                               float *registers, int64_t width, int64_t before, int64_t count, int64_t piece,
                               const Hasher *hasher, Output *output) {
    void *streams[MOST_TAPS + 1] = {0}, **last = streams + MOST_TAPS;
    int64_t fault = 0, pending = 0; /* bytes that are not written yet, at the beginning of `out` */
    for (int64_t k = 0; hasher && k < n_taps && k < MOST_TAPS; k++) {
        const int64_t start = taps[k].position, size = count * size_of(taps[k].format);
        streams[k] = taps[k].tree ? hasher->open(taps[k].tree, start, start + size) : 0;
    }
    if (hasher && output && output->tree)
        *last = hasher->open(output->tree, output->position, output->position + count * size_of(out_format));
    for (int64_t at = 0; at < count && !fault; at += piece) {
        int64_t n = count - at < piece ? count - at : piece;
        for (int64_t k = 0; k < n_taps && !fault; k++) {
            Tap *tap = taps + k;
            int64_t size = n * size_of(tap->format);
            if (!filled((char *)tap->data, size, tap->file, tap->position)) fault = 3;
            tap->position += size;
            if (!fault && k < MOST_TAPS && streams[k]) hasher->feed(streams[k], tap->data, size);
        }
        if (fault) break;
        char *into = !out ? 0 : output ? out + pending : out + at * size_of(out_format);
        fault = smelt_run(ops, n_ops, taps, into, out_format, registers, width, before + at, n);
        if (fault || !output) continue;
        if (*last) hasher->feed(*last, into, n * size_of(out_format));
        pending += n * size_of(out_format);
        if (!may_write(output, at + piece >= count)) continue;
        if (!written(out, pending, output)) fault = 4;
        end_write(output);
        pending = 0;
    }
    for (int64_t k = 0; k <= MOST_TAPS; k++) /* after a fault the hashes are worth nothing, and nobody asks for them */
        if (streams[k]) hasher->close(streams[k]);
    return fault;
}

/* One of many small runs, each with a program of its own. */
typedef struct {
    Op *ops;
    int64_t n_ops;
    Tap *taps;
    int64_t n_taps;
    char *out;
    int64_t out_format, width, count;
} Job;

/* Runs them in their order until one has a fault, and says in `done` how many had none. */
EXPORT int64_t smelt_run_jobs(const Job *jobs, int64_t n_jobs, float *registers, int64_t *done, const Hasher *hasher) {
    for (*done = 0; *done < n_jobs; ++*done) {
        const Job *job = jobs + *done;
        int64_t fault = smelt_run_files(job->ops, job->n_ops, job->taps, job->n_taps, job->out, job->out_format, registers,
                                        job->width, 0, job->count, job->count, hasher, 0);
        if (fault) return fault;
    }
    return 0;
}

/* Reads `many` pieces of `size` bytes, each `stride` after the one before, and one of `last`, one after the other into the
   room: 3 where a file ends before. */
EXPORT int64_t smelt_read_pieces(int64_t file, int64_t position, int64_t stride, int64_t size, int64_t many, int64_t last,
                                 char *room) {
    for (int64_t k = 0; k < many; k++, position += stride, room += size)
        if (!filled(room, size, file, position)) return 3;
    return filled(room, last, file, position) ? 0 : 3;
}
#endif
