/* Codes and scales become numbers: (code - zero) * scale * factor in float32, rounded once to what is offered.

   Codes have four or eight bits and lie row after row. A scale (and a zero point) is shared by a block of `block_rows` by
   `block_cols` codes. Work goes in short runs of one row: codes to float32 in the first cache, their scales beside them,
   then both together, each in a loop that compilers make vectors of. Called with ctypes (kernels.py); it needs nothing of
   Python's. */

#include <stdint.h>
#include <string.h>
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__)
#include <immintrin.h>
#define WITH_PERMUTATIONS
#endif

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

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

enum { BF16 = 0, F16 = 1, F32 = 2 };                                  /* what is written */
enum { SIGNED = 0, UNSIGNED = 1, E4M3 = 2, E5M2 = 3, CENTRED = 4, NIBBLES = 5, LOW_INTS = 6, LOW_E2M1 = 7 }; /* codes */

#define RUN 256  /* numbers that are in work at once */
#define STEP 16  /* numbers that get their scale at once */

INLINE float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Four bits of exponent with bias 7; what has none is a multiple of 2^-9, which float32 gets by a difference. */
INLINE float from_e4m3(uint8_t code) {
    uint32_t size = code & 0x7fu, sign = (uint32_t)(code & 0x80u) << 24;
    float normal = float_of((size << 20) + (120u << 23)), small = float_of((size << 20) + (121u << 23)) - 0x1p-6f;
    float value = size < 8 ? small : normal;
    return float_of((size == 0x7f ? 0x7fc00000u : bits_of(value)) | sign);
}

/* Five bits of exponent with bias 15: the first byte of a half. */
INLINE float from_e5m2(uint8_t code) {
    uint32_t size = code & 0x7fu, sign = (uint32_t)(code & 0x80u) << 24;
    float normal = float_of((size << 21) + (112u << 23)), small = float_of((size << 21) + (113u << 23)) - 0x1p-14f;
    float value = size < 4 ? small : normal;
    uint32_t bits = size >= 0x7c ? 0x7f800000u | (size & 3u) << 21 : bits_of(value);
    return float_of(bits | sign);
}

/* To the nearest, to the even one of two. A NaN stays one if the lower half of its bits is empty, as all are here. */
INLINE uint16_t to_bf16(float value) {
    uint32_t bits = bits_of(value);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* To the nearest half, to the even one of two; what is below 2^-14 becomes a multiple of 2^-24. */
INLINE uint16_t to_f16(float value) {
    uint32_t bits = bits_of(value), size = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000u;
    uint32_t normal = (size - (112u << 23) + 0xfffu + (size >> 13 & 1u)) >> 13;
    uint32_t small = bits_of(float_of(size) + 0.5f) - bits_of(0.5f);
    uint32_t half = size < (113u << 23) ? small : normal;
    half = size >= 0x477ff000u ? 0x7c00u : half;
    return (uint16_t)((size > 0x7f800000u ? 0x7e00u : half) | sign);
}

/* Two bits of exponent with bias 1, and one of mantissa. */
INLINE float from_e2m1(uint32_t code) {
    uint32_t size = code & 7u;
    float value = size < 2 ? 0.5f * (float)(int)size : float_of((size << 22) + (126u << 23));
    return float_of(bits_of(value) | (code & 8u) << 28);
}

#define FROM_BYTES(as)                                                                                                 \
    for (int64_t i = 0; i < n; i++) out[i] = as(codes[i])
#define FROM_SIGNED(code) (float)(int8_t)(code)
#define FROM_UNSIGNED(code) (float)(code)
#define FROM_CENTRED(code) (float)((int)(code) - 128)

#define FROM_CENTRED_NIBBLE(code) (float)((int)(code) - 8)
#define FROM_NIBBLES(as)                                                                                               \
    for (int64_t i = 0; i < bytes; i++) {                                                                              \
        to[2 * i] = as(codes[i] & 15u);                                                                                \
        to[2 * i + 1] = as((uint32_t)codes[i] >> 4);                                                                   \
    }

/* The two numbers of each byte of nibbles, out of a table. The upper half of a byte comes first where the number of 0x10
   differs from that of 0x00; with AVX-512 sixteen numbers are then picked from the table in one instruction. */
#if defined(WITH_PERMUTATIONS)
__attribute__((target("avx512f"))) static int64_t permuted(const uint8_t *codes, const float *pairs, int64_t bytes,
                                                           float *out) {
    float numbers[16];
    for (int code = 0; code < 16; code++) numbers[code] = pairs[2 * (code << 4)];
    __m512 table = _mm512_loadu_ps(numbers);
    int64_t i = 0;
    for (; i + 8 <= bytes; i += 8) {
        __m512i each = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)(codes + i)));
        __m512i places = _mm512_or_si512(_mm512_srli_epi64(each, 4), _mm512_slli_epi64(each, 32));
        _mm512_storeu_ps(out + 2 * i, _mm512_permutexvar_ps(places, table));
    }
    return i;
}
#endif

INLINE void looked_up(const uint8_t *codes, const float *pairs, int64_t bytes, float *out) {
    int64_t i = 0;
#if defined(WITH_PERMUTATIONS)
    if (pairs[2 << 4] != pairs[0] && __builtin_cpu_supports("avx512f")) i = permuted(codes, pairs, bytes, out);
#endif
    for (; i < bytes; i++) memcpy(out + 2 * i, pairs + 2 * codes[i], 2 * sizeof *out);
}

/* `n` codes from the `first` on, as numbers; returns where the first one is. `pairs` has the two numbers that each byte
   of nibbles stands for, where no arithmetic gives them. */
INLINE const float *numbers_of(int kind, const uint8_t *codes, const float *pairs, int64_t first, int64_t n, float *out) {
    if (kind >= NIBBLES) {
        int64_t bytes = (first + n + 1) / 2 - first / 2;
        float *to = out;
        codes += first / 2;
        if (kind == LOW_INTS)
            FROM_NIBBLES(FROM_CENTRED_NIBBLE)
        else if (kind == LOW_E2M1)
            FROM_NIBBLES(from_e2m1)
        else
            looked_up(codes, pairs, bytes, to);
        return out + (first & 1);
    }
    codes += first;
    if (kind == SIGNED)
        FROM_BYTES(FROM_SIGNED);
    else if (kind == UNSIGNED)
        FROM_BYTES(FROM_UNSIGNED);
    else if (kind == CENTRED)
        FROM_BYTES(FROM_CENTRED);
    else if (kind == E4M3)
        FROM_BYTES(from_e4m3);
    else
        FROM_BYTES(from_e5m2);
    return out;
}

typedef struct {
    const uint8_t *codes;    /* of the whole rows that are given */
    const float *pairs;      /* of nibbles: two numbers for each byte */
    const float *scales;     /* [rows of blocks, scale_cols] */
    const float *zeros;      /* likewise, or null */
    const int32_t *group_of; /* the block of each column where columns are not in order, else null */
    int64_t cols, scale_cols, block_rows, block_cols;
    int64_t first_row;       /* of the first given row within its block */
    int32_t kind, format;
    float factor;            /* goes over all of them, after the scales */
} Codes;

/* Where a run of columns begins among the blocks: divisions cost as much as a dozen numbers, so they are done once. */
typedef struct {
    int64_t col, block, left; /* the block of the column, and how many columns of it are left */
} Start;

INLINE Start start_at(const Codes *c, int64_t col) {
    Start at = {col, col / c->block_cols, c->block_cols - col % c->block_cols};
    return at;
}

/* What columns have of a row of scales, by the block of each. With AVX-512 sixteen are picked at once from every 32 blocks:
   much faster than to gather them, for as many blocks as layers have. */
#if defined(WITH_PERMUTATIONS)
#define BLOCKS 32
__attribute__((target("avx512f"))) static int64_t picked(const float *row, int64_t blocks, const int32_t *block_of,
                                                         int64_t n, float *out) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m512i places = _mm512_loadu_si512(block_of + i), parts = _mm512_srli_epi32(places, 5);
        __m512 found = _mm512_setzero_ps();
        for (int64_t first = 0; first < blocks; first += BLOCKS) {
            int64_t left = blocks - first;
            uint32_t there = left >= BLOCKS ? 0xffffffffu : (1u << left) - 1u;
            __m512 low = _mm512_maskz_loadu_ps((__mmask16)there, row + first);
            __m512 high = _mm512_maskz_loadu_ps((__mmask16)(there >> 16), row + first + 16);
            __mmask16 here = _mm512_cmpeq_epi32_mask(parts, _mm512_set1_epi32((int32_t)(first / BLOCKS)));
            found = _mm512_mask_mov_ps(found, here, _mm512_permutex2var_ps(low, places, high));
        }
        _mm512_storeu_ps(out + i, found);
    }
    return i;
}
#endif

INLINE void pick(const Codes *c, const float *row, int64_t col, int64_t n, float *out) {
    int64_t i = 0;
#if defined(WITH_PERMUTATIONS)
    if (__builtin_cpu_supports("avx512f")) i = picked(row, c->scale_cols, c->group_of + col, n, out);
#endif
    for (; i < n; i++) out[i] = row[c->group_of[col + i]];
}

/* What the next `n` columns have of a row of scales, and where the columns behind them begin; up to STEP more numbers may
   be written. */
INLINE Start spread(const Codes *c, const float *row, Start at, int64_t n, float *out) {
    if (c->group_of) {
        pick(c, row, at.col, n, out);
    } else if (c->block_cols % STEP == 0 && at.left % STEP == 0 && n % STEP == 0) {
        for (int64_t i = 0; i < n; i += STEP, at.left -= STEP) {
            if (!at.left) at.left = c->block_cols, at.block++;
            for (int j = 0; j < STEP; j++) out[i + j] = row[at.block];
        }
    } else {
        for (int64_t i = 0; i < n; i++, at.left--) {
            if (!at.left) at.left = c->block_cols, at.block++;
            out[i] = row[at.block];
        }
    }
    at.col += n;
    return at;
}

#define WRITE(type, as)                                                                                                \
    if (zeros)                                                                                                         \
        for (int64_t i = 0; i < n; i++) ((type *)out)[i] = as((numbers[i] - zeros[i]) * scales[i] * factor);           \
    else                                                                                                               \
        for (int64_t i = 0; i < n; i++) ((type *)out)[i] = as(numbers[i] * scales[i] * factor)

/* The next `n` columns of a row as the format wants them; n is at most RUN, `place` the row's first scale. */
INLINE Start write_run(const Codes *c, int64_t row, int64_t place, Start at, int64_t n, int format, void *out) {
    float found[RUN + 2], scales[RUN + STEP], room[RUN + STEP], *zeros = c->zeros ? room : 0, factor = c->factor;
    const float *numbers = numbers_of(c->kind, c->codes, c->pairs, row * c->cols + at.col, n, found);
    Start next = spread(c, c->scales + place, at, n, scales);
    if (zeros) spread(c, c->zeros + place, at, n, zeros);
    if (format == BF16) {
        WRITE(uint16_t, to_bf16);
    } else if (format == F16) {
        WRITE(uint16_t, to_f16);
    } else {
        WRITE(float, (float));
    }
    return next;
}

INLINE int64_t place_of(const Codes *c, int64_t row) { return (row + c->first_row) / c->block_rows * c->scale_cols; }

/* Elements [start, start + count), counted from the first given row on. */
EXPORT EVERY_PROCESSOR void smelt_dequantise(const Codes *c, int64_t start, int64_t count, char *out) {
    int64_t size = c->format == F32 ? 4 : 2, row = start / c->cols, first = start % c->cols;
    for (int64_t done = 0; done < count; row++, first = 0) {
        int64_t place = place_of(c, row), end = c->cols - first < count - done ? c->cols : first + count - done;
        for (Start at = start_at(c, first); at.col < end;) {
            int64_t n = end - at.col < RUN ? end - at.col : RUN;
            at = write_run(c, row, place, at, n, c->format, out + done * size);
            done += n;
        }
    }
}

#define SIDE 64 /* of the square that is turned at once: a row of it makes whole lines of a cache */

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define IN_VECTORS
#endif
#endif

#if defined(IN_VECTORS)
#define CELL 8
typedef uint16_t Row __attribute__((vector_size(16)));
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)

/* Three times the rows 0 and 4, 1 and 5, ... are interleaved, which puts number j of row i at number i of row j. */
INLINE void turn_cell(const uint16_t *from, uint16_t *to) {
    Row a[CELL], b[CELL];
    for (int i = 0; i < CELL; i++) memcpy(&a[i], from + i * SIDE, sizeof *a);
    for (int i = 0; i < 4; i++) b[2 * i] = LOW(a[i], a[i + 4]), b[2 * i + 1] = HIGH(a[i], a[i + 4]);
    for (int i = 0; i < 4; i++) a[2 * i] = LOW(b[i], b[i + 4]), a[2 * i + 1] = HIGH(b[i], b[i + 4]);
    for (int i = 0; i < 4; i++) b[2 * i] = LOW(a[i], a[i + 4]), b[2 * i + 1] = HIGH(a[i], a[i + 4]);
    for (int i = 0; i < CELL; i++) memcpy(to + i * SIDE, &b[i], sizeof *b);
}

INLINE void turn_halves(const uint16_t *from, uint16_t *to) {
    for (int row = 0; row < SIDE; row += CELL)
        for (int col = 0; col < SIDE; col += CELL) turn_cell(from + row * SIDE + col, to + col * SIDE + row);
}
#else
INLINE void turn_halves(const uint16_t *from, uint16_t *to) {
    for (int row = 0; row < SIDE; row++)
        for (int col = 0; col < SIDE; col++) to[col * SIDE + row] = from[row * SIDE + col];
}
#endif

INLINE void turn_floats(const float *from, float *to) {
    for (int row = 0; row < SIDE; row++)
        for (int col = 0; col < SIDE; col++) to[col * SIDE + row] = from[row * SIDE + col];
}

#define TURN(type, turn)                                                                                               \
    do {                                                                                                               \
        type square[SIDE * SIDE] = {0}, turned[SIDE * SIDE]; /* what lies beyond the last row is turned, too */        \
        for (int64_t top = 0; top < rows; top += SIDE) {                                                               \
            int64_t deep = rows - top < SIDE ? rows - top : SIDE;                                                      \
            for (int64_t row = 0; row < deep; row++)                                                                   \
                write_run(c, top + row, place_of(c, top + row), at, n, c->format, square + row * SIDE);                \
            turn(square, turned);                                                                                      \
            for (int64_t col = 0; col < n; col++)                                                                      \
                memcpy(out + (col * rows + top) * sizeof(type), turned + col * SIDE, (size_t)deep * sizeof(type));     \
        }                                                                                                              \
    } while (0)

/* The columns [first, first + n) of `rows` rows as [n, rows]: for layers that are offered as [in, out]. n is at most SIDE. */
EXPORT EVERY_PROCESSOR void smelt_dequantise_turned(const Codes *c, int64_t rows, int64_t first, int64_t n, char *out) {
    Start at = start_at(c, first);
    if (c->format == F32)
        TURN(float, turn_floats);
    else
        TURN(uint16_t, turn_halves);
}
