/* SHA-256 (FIPS 180-4) of one file or of two at once, on x86 processors that have instructions for it.

   Those instructions wait for each other: one message keeps their unit busy half of the time. Two messages in one stream
   of instructions take hardly longer than one (1.7 and 3.1 GB/s on one core of Zen 4); a third one adds nothing.

   Called with ctypes (sha256.py), which pads the ends of messages. Where the instructions are missing, hashlib is used. */

#include <stdint.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

#define BLOCK 64
#define ROOM (1 << 16) /* read at once: it stays in the second cache until it is used */

typedef struct {
    uint32_t state[8];
    int64_t file;     /* a descriptor, and the byte of it that comes next */
    int64_t position;
} Message;

#if defined(__x86_64__) && defined(__GNUC__) && !defined(_WIN32)

#include <errno.h>
#include <immintrin.h>
#include <cpuid.h>
#include <unistd.h>

#define HERE __attribute__((target("sha,sse4.1,ssse3")))
#define INLINE static inline __attribute__((always_inline)) HERE

static const uint32_t CONSTANTS[64] __attribute__((aligned(16))) = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/* Words a, b, e, f and c, d, g, h of a state, as the instructions want them, from its words in their order; and back. */
INLINE void split(const uint32_t *state, __m128i *abef, __m128i *cdgh) {
    __m128i abcd = _mm_loadu_si128((const __m128i *)state), efgh = _mm_loadu_si128((const __m128i *)(state + 4));
    *abef = _mm_shuffle_epi32(_mm_unpacklo_epi64(efgh, abcd), 0xB1);
    *cdgh = _mm_shuffle_epi32(_mm_unpackhi_epi64(efgh, abcd), 0xB1);
}

INLINE void join(uint32_t *state, __m128i abef, __m128i cdgh) {
    __m128i feba = _mm_shuffle_epi32(abef, 0x1B), hgdc = _mm_shuffle_epi32(cdgh, 0x1B);
    _mm_storeu_si128((__m128i *)state, _mm_unpacklo_epi64(feba, hgdc));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_unpackhi_epi64(feba, hgdc));
}

/* So many blocks of each message into its state. The loops over messages and rounds are unrolled. */
INLINE void take(int messages, Message *const *all, const uint8_t *const *data, int64_t blocks) {
    const __m128i reversed = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i abef[2], cdgh[2], words[2][4];
#pragma GCC unroll 2
    for (int m = 0; m < messages; m++) split(all[m]->state, &abef[m], &cdgh[m]);
    for (int64_t block = 0; block < blocks; block++) {
        __m128i abef_before[2], cdgh_before[2];
#pragma GCC unroll 2
        for (int m = 0; m < messages; m++) {
            abef_before[m] = abef[m];
            cdgh_before[m] = cdgh[m];
        }
#pragma GCC unroll 16
        for (int four = 0; four < 16; four++) { /* four rounds each */
            const __m128i constants = _mm_load_si128((const __m128i *)(CONSTANTS + 4 * four));
#pragma GCC unroll 2
            for (int m = 0; m < messages; m++) {
                __m128i *w = words[m];
                if (four < 4)
                    w[four] = _mm_shuffle_epi8(
                        _mm_loadu_si128((const __m128i *)(data[m] + BLOCK * block + 16 * four)), reversed);
                __m128i sum = _mm_add_epi32(w[four & 3], constants);
                cdgh[m] = _mm_sha256rnds2_epu32(cdgh[m], abef[m], sum);
                abef[m] = _mm_sha256rnds2_epu32(abef[m], cdgh[m], _mm_shuffle_epi32(sum, 0x0E));
                if (four >= 3 && four < 15) { /* the words of the next four rounds replace the oldest ones */
                    int next = (four + 1) & 3;
                    __m128i last = w[four & 3], older = w[(four + 3) & 3];
                    __m128i begun = _mm_add_epi32(
                        _mm_sha256msg1_epu32(w[next], w[(four + 2) & 3]), _mm_alignr_epi8(last, older, 4));
                    w[next] = _mm_sha256msg2_epu32(begun, last);
                }
            }
        }
#pragma GCC unroll 2
        for (int m = 0; m < messages; m++) {
            abef[m] = _mm_add_epi32(abef[m], abef_before[m]);
            cdgh[m] = _mm_add_epi32(cdgh[m], cdgh_before[m]);
        }
    }
#pragma GCC unroll 2
    for (int m = 0; m < messages; m++) join(all[m]->state, abef[m], cdgh[m]);
}

HERE static void take_one(Message *const *all, const uint8_t *const *data, int64_t blocks) {
    take(1, all, data, blocks);
}

HERE static void take_two(Message *const *all, const uint8_t *const *data, int64_t blocks) {
    take(2, all, data, blocks);
}

/* Whether this processor has what it takes. */
EXPORT int64_t smelt_sha256_here(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 29 & 1) && __builtin_cpu_supports("ssse3") &&
           __builtin_cpu_supports("sse4.1");
}

/* So many blocks of a message that lie in memory. */
EXPORT void smelt_sha256_memory(Message *message, const uint8_t *data, int64_t blocks) {
    take_one(&message, &data, blocks);
}

static int read_all(int file, uint8_t *into, int64_t count, int64_t position) {
    while (count > 0) {
        ssize_t got = pread(file, into, (size_t)count, position);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return 0;
        into += got, position += got, count -= got;
    }
    return 1;
}

/* So many blocks of one file, or of two at once where `second` is not NULL, from their positions on; nothing more once
   `stop` is not 0. The number of the file that cannot be read, -1 where all can. */
EXPORT int64_t smelt_sha256_files(Message *first, Message *second, int64_t blocks, const volatile int32_t *stop) {
    uint8_t rooms[2][ROOM];
    const uint8_t *data[2] = {rooms[0], rooms[1]};
    Message *all[2] = {first, second};
    while (blocks > 0 && !*stop) {
        int64_t some = blocks < ROOM / BLOCK ? blocks : ROOM / BLOCK;
        for (int m = 0; m < 2 && all[m]; m++) {
            if (!read_all((int)all[m]->file, rooms[m], some * BLOCK, all[m]->position)) return m;
        }
        (second ? take_two : take_one)(all, data, some);
        for (int m = 0; m < 2 && all[m]; m++) all[m]->position += some * BLOCK;
        blocks -= some;
    }
    return -1;
}

#else

EXPORT int64_t smelt_sha256_here(void) { return 0; }

#endif
