/* Matrices of packed codes are turned: what is stored as [in, out] becomes rows of codes [out, in], each from the lowest
   bits of its first word up, as dequantise.c reads them.

   GPTQ packs codes of consecutive rows into a word, so that whole words are turned. AWQ packs eight codes of consecutive
   columns, of which those of even number come first: eight words of a column are turned among themselves, too. Work goes
   in tiles, so that lines of memory are read and written whole. Called with ctypes (unpacking.py). */

#include <stdint.h>
#include <string.h>

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

#define TILE 16  /* words in a line of a cache */
#define EIGHT 8  /* codes of four bits in a word */

/* A copy of up to a line; whole lines, which are nearly all, are no call. */
static inline void copy(uint32_t *to, const uint32_t *from, int64_t words) {
    if (words == TILE)
        memcpy(to, from, TILE * sizeof *to);
    else
        memcpy(to, from, (size_t)words * sizeof *to);
}

static int64_t least(int64_t one, int64_t other) { return one < other ? one : other; }

/* [rows, cols] becomes [cols, rows]. */
EXPORT EVERY_PROCESSOR void smelt_turn_words(const uint32_t *words, int64_t rows, int64_t cols, uint32_t *out) {
    for (int64_t left = 0; left < cols; left += TILE)
        for (int64_t top = 0; top < rows; top += TILE) {
            int64_t deep = least(TILE, rows - top), wide = least(TILE, cols - left);
            uint32_t tile[TILE][TILE];
            for (int64_t row = 0; row < deep; row++)
                for (int64_t col = 0; col < wide; col++) tile[col][row] = words[(top + row) * cols + left + col];
            for (int64_t col = 0; col < wide; col++)
                copy(out + (left + col) * rows + top, tile[col], deep);
        }
}

/* Parts of two words are exchanged: the upper ones of the first with the lower ones of the second. */
#define EXCHANGE(one, other, shift, mask)                                                                              \
    for (int i = 0; i < TILE; i++) {                                                                                   \
        uint32_t both = ((one)[i] >> (shift) ^ (other)[i]) & (mask);                                                   \
        (one)[i] ^= both << (shift);                                                                                   \
        (other)[i] ^= both;                                                                                            \
    }

/* Where in a word the code of each of its eight columns lies. */
static const int PLACES[EIGHT] = {0, 4, 1, 5, 2, 6, 3, 7};

/* [rows, cols] words of eight codes in AWQ's order become [8 * cols, rows / 8]; `rows` is a multiple of eight. */
EXPORT EVERY_PROCESSOR void smelt_turn_awq(const uint32_t *words, int64_t rows, int64_t cols, uint32_t *out) {
    int64_t whole = rows / EIGHT;
    for (int64_t left = 0; left < cols; left += TILE)
        for (int64_t top = 0; top < whole; top += TILE) {
            int64_t deep = least(TILE, whole - top), wide = least(TILE, cols - left);
            uint32_t turned[TILE * EIGHT][TILE];
            for (int64_t row = 0; row < deep; row++) {
                uint32_t w[EIGHT][TILE];
                for (int k = 0; k < EIGHT; k++) copy(w[k], words + ((top + row) * EIGHT + k) * cols + left, wide);
                for (int k = 0; k < 4; k++) EXCHANGE(w[k], w[k + 4], 16, 0x0000ffffu)
                for (int k = 0; k < EIGHT; k += k & 1 ? 3 : 1) EXCHANGE(w[k], w[k + 2], 8, 0x00ff00ffu)
                for (int k = 0; k < EIGHT; k += 2) EXCHANGE(w[k], w[k + 1], 4, 0x0f0f0f0fu)
                for (int64_t col = 0; col < wide; col++)
                    for (int j = 0; j < EIGHT; j++) turned[col * EIGHT + j][row] = w[PLACES[j]][col];
            }
            for (int64_t at = 0; at < wide * EIGHT; at++)
                copy(out + (left * EIGHT + at) * whole + top, turned[at], deep);
        }
}
