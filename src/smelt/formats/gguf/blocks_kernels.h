/* The blocks of every type, for one kind of processor: blocks.c includes this once for each, which OF_PROCESSOR names.

   `at` are the bytes of one block and `out` its numbers. */

/* 16 bytes hold 32 numbers of 4 bits: first all the lower halves, then all the upper ones. */

INLINE void OF_PROCESSOR(q4_0)(const uint8_t *at, float *out) {
    float scale = half_at(at);
    Bytes both = bytes_at(at + 2);
    OF_PROCESSOR(put)(both & 15, 8, scale, out);
    OF_PROCESSOR(put)(both >> 4, 8, scale, out + 16);
}

INLINE void OF_PROCESSOR(q4_1)(const uint8_t *at, float *out) {
    float scale = half_at(at), least = half_at(at + 2);
    Bytes both = bytes_at(at + 4);
    OF_PROCESSOR(put_more)(both & 15, scale, least, out);
    OF_PROCESSOR(put_more)(both >> 4, scale, least, out + 16);
}

/* The fifth bits of sixteen numbers stand in two bytes. */

INLINE void OF_PROCESSOR(q5_0)(const uint8_t *at, float *out) {
    float scale = half_at(at);
    Bytes both = bytes_at(at + 6);
    OF_PROCESSOR(put)((both & 15) | OF_PROCESSOR(fifth_bits)(at + 2), 16, scale, out);
    OF_PROCESSOR(put)((both >> 4) | OF_PROCESSOR(fifth_bits)(at + 4), 16, scale, out + 16);
}

INLINE void OF_PROCESSOR(q5_1)(const uint8_t *at, float *out) {
    float scale = half_at(at), least = half_at(at + 2);
    Bytes both = bytes_at(at + 8);
    OF_PROCESSOR(put_more)((both & 15) | OF_PROCESSOR(fifth_bits)(at + 4), scale, least, out);
    OF_PROCESSOR(put_more)((both >> 4) | OF_PROCESSOR(fifth_bits)(at + 6), scale, least, out + 16);
}

INLINE void OF_PROCESSOR(q8_0)(const uint8_t *at, float *out) {
    float scale = half_at(at);
    OF_PROCESSOR(put)(bytes_at(at + 2) ^ 128, 128, scale, out);
    OF_PROCESSOR(put)(bytes_at(at + 18) ^ 128, 128, scale, out + 16);
}

/* 64 bytes of pairs of bits: of every 32 bytes first the lowest pairs, then the next ones. Sixteen numbers share a scale. */

INLINE void OF_PROCESSOR(q2_k)(const uint8_t *at, float *out) {
    const uint8_t *scales = at, *pairs = at + 16;
    float scale = half_at(at + 80), least = half_at(at + 82);
#pragma GCC unroll 16
    for (int group = 0; group < 16; group++) {
        Bytes from = bytes_at(pairs + group / 8 * 32 + group % 2 * 16);
        float step = scale * (float)(scales[group] & 15), low = least * (float)(scales[group] >> 4);
        OF_PROCESSOR(put_more)(from >> (group / 2 % 4 * 2) & 3, step, -low, out + group * 16);
    }
}

INLINE void OF_PROCESSOR(q3_k)(const uint8_t *at, float *out) {
    const uint8_t *bits = at, *pairs = at + 32, *scales = at + 96;
    float scale = half_at(at + 108);
#pragma GCC unroll 16
    for (int group = 0; group < 16; group++) {
        Bytes from = bytes_at(pairs + group / 8 * 32 + group % 2 * 16), high = bytes_at(bits + group % 2 * 16);
        int low = group < 8 ? scales[group] & 15 : scales[group - 8] >> 4;
        float step = scale * (float)((low | (scales[8 + group % 4] >> group / 4 * 2 & 3) << 4) - 32);
        Bytes four = (high >> (group / 2) & 1) << 2;
        OF_PROCESSOR(put)((from >> (group / 2 % 4 * 2) & 3) | four, 4, step, out + group * 16);
    }
}

INLINE void OF_PROCESSOR(q4_k)(const uint8_t *at, float *out) {
    float scale = half_at(at), least = half_at(at + 2);
#pragma GCC unroll 8
    for (int group = 0; group < 8; group++) {
        int step_of, least_of;
        scale_and_least(at + 4, group, &step_of, &least_of);
        float step = scale * (float)step_of, low = least * (float)least_of;
        for (int half = 0; half < 32; half += 16) {
            Bytes from = bytes_at(at + 16 + group / 2 * 32 + half);
            OF_PROCESSOR(put_more)(from >> (group % 2 * 4) & 15, step, -low, out + group * 32 + half);
        }
    }
}

INLINE void OF_PROCESSOR(q5_k)(const uint8_t *at, float *out) {
    float scale = half_at(at), least = half_at(at + 2);
#pragma GCC unroll 8
    for (int group = 0; group < 8; group++) {
        int step_of, least_of;
        scale_and_least(at + 4, group, &step_of, &least_of);
        float step = scale * (float)step_of, low = least * (float)least_of;
        for (int half = 0; half < 32; half += 16) {
            Bytes from = bytes_at(at + 48 + group / 2 * 32 + half), high = bytes_at(at + 16 + half);
            Bytes fifth = (high >> group & 1) << 4;
            OF_PROCESSOR(put_more)((from >> (group % 2 * 4) & 15) | fifth, step, -low, out + group * 32 + half);
        }
    }
}

INLINE void OF_PROCESSOR(q6_k)(const uint8_t *at, float *out) {
    const int8_t *scales = (const int8_t *)(at + 192);
    float scale = half_at(at + 208);
#pragma GCC unroll 8
    for (int group = 0; group < 8; group++)
        for (int half = 0; half < 2; half++) {
            Bytes from = bytes_at(at + group / 4 * 64 + group % 2 * 32 + half * 16);
            Bytes upper = (bytes_at(at + 128 + group / 4 * 32 + half * 16) >> (group % 4 * 2) & 3) << 4;
            float step = scale * (float)scales[group * 2 + half];
            OF_PROCESSOR(put)((from >> (group / 2 % 2 * 4) & 15) | upper, 32, step, out + group * 32 + half * 16);
        }
}

/* Numbers of a table, whose places in it are stored. */

INLINE Bytes OF_PROCESSOR(looked_up)(const int8_t *table, Bytes places) {
    Bytes found;
#if defined(__clang__)
    for (int i = 0; i < 16; i++)
        found[i] = (uint8_t)table[places[i]];
#else
    memcpy(&found, table, 16);
    found = __builtin_shuffle(found, places);
#endif
    return found ^ 128;
}

INLINE void OF_PROCESSOR(from_table)(const int8_t *table, const uint8_t *at, float scale, float *out) {
    Bytes both = bytes_at(at);
    OF_PROCESSOR(put)(OF_PROCESSOR(looked_up)(table, both & 15), 128, scale, out);
    OF_PROCESSOR(put)(OF_PROCESSOR(looked_up)(table, both >> 4), 128, scale, out + 16);
}

INLINE void OF_PROCESSOR(iq4_xs)(const uint8_t *at, float *out) {
    float scale = half_at(at);
    int high = at[2] | at[3] << 8;
    for (int group = 0; group < 8; group++) {
        int low = at[4 + group / 2] >> group % 2 * 4 & 15;
        float step = scale * (float)((low | (high >> 2 * group & 3) << 4) - 32);
        OF_PROCESSOR(from_table)(IQ4_VALUES, at + 8 + group * 16, step, out + group * 32);
    }
}

#define ALL(SIZE, NUMBERS, BODY)                                                                                       \
    for (int64_t block = 0; block < count; block++, at += (SIZE), out += (NUMBERS)) {                                  \
        BODY;                                                                                                          \
    }                                                                                                                  \
    return 0;

static int OF_PROCESSOR(blocks)(int32_t type, const uint8_t *at, int64_t count, float *out) {
    switch (type) {
    case Q4_0: ALL(18, 32, OF_PROCESSOR(q4_0)(at, out))
    case Q4_1: ALL(20, 32, OF_PROCESSOR(q4_1)(at, out))
    case Q5_0: ALL(22, 32, OF_PROCESSOR(q5_0)(at, out))
    case Q5_1: ALL(24, 32, OF_PROCESSOR(q5_1)(at, out))
    case Q8_0: ALL(34, 32, OF_PROCESSOR(q8_0)(at, out))
    case Q2_K: ALL(84, MANY, OF_PROCESSOR(q2_k)(at, out))
    case Q3_K: ALL(110, MANY, OF_PROCESSOR(q3_k)(at, out))
    case Q4_K: ALL(144, MANY, OF_PROCESSOR(q4_k)(at, out))
    case Q5_K: ALL(176, MANY, OF_PROCESSOR(q5_k)(at, out))
    case Q6_K: ALL(210, MANY, OF_PROCESSOR(q6_k)(at, out))
    case IQ4_NL: ALL(18, 32, OF_PROCESSOR(from_table)(IQ4_VALUES, at + 2, half_at(at), out))
    case IQ4_XS: ALL(136, MANY, OF_PROCESSOR(iq4_xs)(at, out))
    case MXFP4: ALL(17, 32, OF_PROCESSOR(from_table)(MXFP4_VALUES, at + 1, half_of_power(at[0]), out))
    default: return 1;
    }
}

#undef ALL
