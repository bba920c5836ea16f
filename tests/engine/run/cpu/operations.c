/* Runs every operation of the vector machine on the same made-up numbers, and prints a sum over all bits that came out of
   each: two compilers, processors or systems agree where they print the same lines (test_same_bits_everywhere.py). */

#include <inttypes.h>
#include <stdio.h>

#include "machine.c"

enum { WIDTH = 517, ROWS = 3, REGISTERS = 8, LAST = ROW_DIVERGENCE, ROOM = 1 << 20 }; /* rows that no vector fits */

static float registers[REGISTERS * (WIDTH + SPARE)];
static uint8_t memory[ROOM], out[4 * WIDTH * ROWS];
static uint16_t halves[2][WIDTH * ROWS];
static float singles[WIDTH * ROWS];

static uint32_t state;

static uint32_t drawn_bits(void) { return state = state * 1664525u + 1013904223u; }

/* Between -1 and 1, never 0; every eighth has one of few magnitudes, every sixteenth is subnormal. */
static float number(void) {
    uint32_t kind = drawn_bits() >> 28, bits = drawn_bits();
    float sign = bits >> 31 ? -1.0f : 1.0f, size = (float)((bits >> 7 & 0xffffffu) + 1) * 0x1p-24f;
    if (kind < 2) return sign * (float)(bits % 4 + 1) * 0.125f;
    return kind == 2 ? sign * size * 0x1p-127f : sign * size;
}

static void fill(void) {
    uint32_t most32 = 0;
    state = 1;
    for (int i = 0; i < REGISTERS * (WIDTH + SPARE); i++) registers[i] = number();
    for (int i = 0; i < WIDTH; i++) registers[4 * (WIDTH + SPARE) + i] = i % 3 ? registers[i] : 0.0f;
    for (int i = 0; i < WIDTH * ROWS; i++) {
        singles[i] = number();
        halves[BF16][i] = to_bf16(singles[i], &most32);
        halves[F16][i] = to_f16(singles[i], &most32);
    }
    memset(out, 0, sizeof out);
    for (int i = 0; i < ROOM; i++) memory[i] = 0;
}

static uint64_t summed(uint64_t sum, const void *bytes, size_t size) {
    for (const uint8_t *byte = bytes; size--; byte++) sum = (sum ^ *byte) * 0x100000001b3u;
    return sum;
}

static int has_third(int code) {
    return code == AGREE_INTO || code == DOTS || code == VARIANCE || code == AGREE_PLUS || code == STORE_PRODUCT;
}

int main(void) {
    for (int code = 0; code <= LAST; code++)
        for (int format = BF16; format <= F32; format++) {
            fill();
            Tap taps[1] = {{format == F32 ? (void *)singles : (void *)halves[format], format, -1, 0}};
            Op op = {code, 3, 1, 2, 0.25f, 0.5f, code == CUT ? 5 : 0, memory, 12345u, 0x9e3779b9u};
            if (code <= LOAD || (code >= LOAD_LESS && code <= LESS_ADD_SCALED) || code == LESS_DRAWN) op.a = 0;
            if (has_third(code)) op.low = 5;
            if (code == FINE || code == EQUAL) op.low = bits_of(0.25f);
            if (code == BRACKET) op.low = bits_of(0.125f), op.high = bits_of(0.5f);
            if (code == DRAW_RANKED) op.q = 0.5f / WIDTH;
            if (code == UNPACK || code == UNPACKED)
                for (int i = 0; i < WIDTH * ROWS / 8 + 1; i++) memory[i] = (uint8_t)(drawn_bits() >> 24);
            if (code == ROW_SCALE)
                for (int i = 0; i < ROWS; i++) memcpy(memory + 4 * i, registers + 7 + i, 4);
            if (code == ROW_DIVERGENCE) /* changes as fine-tuning makes them; large ones need the C library's functions */
                for (int i = 0; i < WIDTH; i++) registers[WIDTH + SPARE + i] *= 0x1p-7f;
            int64_t fault = smelt_run(&op, 1, taps, out, format, registers, WIDTH, 0, WIDTH * ROWS);
            uint64_t sum = summed(14695981039346656037u, registers, sizeof registers);
            sum = summed(summed(sum, out, sizeof out), &op.count, sizeof op.count);
            if (code != RANKS && code != DRAW_RANKED) sum = summed(sum, memory, ROOM); /* theirs is left as it happens */
            printf("%d %d %" PRId64 " %016" PRIx64 "\n", code, format, fault, sum);
        }
    return 0;
}
