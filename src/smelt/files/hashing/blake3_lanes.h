/* BLAKE3's compression of LANES messages side by side: word k of all of them is one vector. Included by blake3.c once for
   each width of vectors, with LANES, HERE (the target's attribute) and NAME (makes names of this width). */

#define V NAME(vector)
#define INLINE_HERE static inline __attribute__((always_inline)) HERE

typedef uint32_t V __attribute__((vector_size(4 * LANES)));
#define BYTES NAME(bytes)
typedef uint8_t BYTES __attribute__((vector_size(4 * LANES)));

/* To the right. Where no instruction turns words, moving bytes is quicker than two shifts. */
#define TURN(x, by) ((x) >> (by) | (x) << (32 - (by)))
#if LANES == 16 || (LANES == 4 && defined(__x86_64__))
#define TURN_BYTES(x, by) TURN(x, 8 * (by))
#else
#define BYTE(i, by) (((i) & ~3) | (((i) + (by)) & 3))
#define TURN_BYTES(x, by) ((V)SHUFFLE(BYTES, (BYTES)(x), (BYTES)(x), EACH_BYTE(BYTE, by)))
#endif

INLINE_HERE void NAME(mix)(V *v, int a, int b, int c, int d, V x, V y) {
    v[a] += v[b] + x;
    v[d] = TURN_BYTES(v[d] ^ v[a], 2);
    v[c] += v[d];
    v[b] = TURN(v[b] ^ v[c], 12);
    v[a] += v[b] + y;
    v[d] = TURN_BYTES(v[d] ^ v[a], 1);
    v[c] += v[d];
    v[b] = TURN(v[b] ^ v[c], 7);
}

/* LANES rows of LANES words become columns: blocks of `half` words are exchanged between rows `half` apart. */
#define UPPER(i, half) ((i) & (half) ? LANES + (i) - (half) : (i))
#define LOWER(i, half) ((i) & (half) ? LANES + (i) : (i) + (half))
#define EXCHANGE(half)                                                                                                 \
    _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++) {                                                         \
        if (i & (half)) continue;                                                                                      \
        const V a = rows[i], b = rows[i + (half)];                                                                     \
        rows[i] = SHUFFLE(V, a, b, EACH_LANE(UPPER, half));                                                            \
        rows[i + (half)] = SHUFFLE(V, a, b, EACH_LANE(LOWER, half));                                                   \
    }

INLINE_HERE void NAME(transpose)(V *rows) {
#if LANES == 16
    EXCHANGE(8)
#endif
#if LANES >= 8
    EXCHANGE(4)
#endif
    EXCHANGE(2)
    EXCHANGE(1)
}

/* One block of each message into the chaining values `cv`. Blocks are whole. */
INLINE_HERE void NAME(compress)(V *cv, const uint8_t *const *blocks, V low, V high, uint32_t flags) {
    V m[16], v[16];
#pragma GCC unroll 4
    for (int part = 0; part < 16; part += LANES) {
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) memcpy(m + part + i, blocks[i] + 4 * part, sizeof(V));
        NAME(transpose)(m + part);
    }
    __asm__("" : "+m"(m)); /* words of the message are read from memory: registers hold the state */
#pragma GCC unroll 16
    for (int i = 0; i < 8; i++) v[i] = cv[i];
    for (int i = 0; i < 4; i++) v[8 + i] = (V){0} + START[i];
    v[12] = low, v[13] = high, v[14] = (V){0} + BLOCK, v[15] = (V){0} + flags;
#pragma GCC unroll 7
    for (int r = 0; r < 7; r++) {
        const uint8_t *s = SCHEDULE[r];
        NAME(mix)(v, 0, 4, 8, 12, m[s[0]], m[s[1]]);
        NAME(mix)(v, 1, 5, 9, 13, m[s[2]], m[s[3]]);
        NAME(mix)(v, 2, 6, 10, 14, m[s[4]], m[s[5]]);
        NAME(mix)(v, 3, 7, 11, 15, m[s[6]], m[s[7]]);
        NAME(mix)(v, 0, 5, 10, 15, m[s[8]], m[s[9]]);
        NAME(mix)(v, 1, 6, 11, 12, m[s[10]], m[s[11]]);
        NAME(mix)(v, 2, 7, 8, 13, m[s[12]], m[s[13]]);
        NAME(mix)(v, 3, 4, 9, 14, m[s[14]], m[s[15]]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) cv[i] = v[i] ^ v[i + 8];
}

/* The chaining values of LANES messages of `blocks` blocks each, one after the other into `out`. Counters rise by `step`
   from lane to lane; the first block has the flags `first` too, and the last one `last`. */
HERE static void NAME(hash)(const uint8_t *const *messages, int blocks, uint64_t counter, uint64_t step, uint32_t first,
                            uint32_t all, uint32_t last, uint32_t *out) {
    V cv[8], low, high;
    uint32_t counters[2][LANES];
    const uint8_t *at[LANES];
    for (int i = 0; i < LANES; i++) {
        at[i] = messages[i];
        counters[0][i] = (uint32_t)(counter + step * (uint64_t)i);
        counters[1][i] = (uint32_t)((counter + step * (uint64_t)i) >> 32);
    }
    memcpy(&low, counters[0], sizeof(V));
    memcpy(&high, counters[1], sizeof(V));
    for (int i = 0; i < 8; i++) cv[i] = (V){0} + START[i];
    for (int b = 0; b < blocks; b++) {
        const uint32_t flags = all | (b == 0 ? first : 0) | (b == blocks - 1 ? last : 0);
        NAME(compress)(cv, at, low, high, flags);
        for (int i = 0; i < LANES; i++) {
            at[i] += BLOCK;
            __builtin_prefetch(at[i] + 3 * BLOCK);
        }
    }
    uint32_t words[8][LANES];
    memcpy(words, cv, sizeof words);
    for (int i = 0; i < LANES; i++)
        for (int k = 0; k < 8; k++) out[8 * i + k] = words[k][i];
}

#undef V
#undef BYTES
#undef INLINE_HERE
#undef TURN
#undef TURN_BYTES
#undef BYTE
#undef UPPER
#undef LOWER
#undef EXCHANGE
#undef LANES
#undef HERE
#undef NAME
#undef EACH_LANE
#undef EACH_BYTE
