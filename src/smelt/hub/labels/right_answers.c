/* How many pictures of some nodes each model of a segment gets right: the masks of the pairs that a selection meets are
   joined model by model, and what is left of the pictures that count is counted. Called with ctypes (right_answers.py,
   which has the same in numpy, and which has looked that all places lie inside the blocks). */

#include <stdint.h>
#include <string.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#include <sys/mman.h>
#include <unistd.h>
#endif

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define EVERY_PROCESSOR __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define EVERY_PROCESSOR
#endif

#define AHEAD (8 << 20) /* bytes that the system is asked to read before they are looked at */

static inline int ones(uint64_t word) {
#if defined(__GNUC__)
    return __builtin_popcountll(word);
#else
    int count = 0;
    for (; word; word &= word - 1)
        count++;
    return count;
#endif
}

static inline uint64_t word_at(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, 8);
    return word;
}

/* The lowest `bytes` bytes of a word. */
static inline uint64_t lowest(int64_t bytes) { return bytes >= 8 ? ~0ull : (1ull << 8 * bytes) - 1; }

/* Ask the system to read some bytes of a mapped file soon. */
EXPORT void smelt_answers_expect(const uint8_t *from, int64_t bytes) {
#if !defined(_WIN32)
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)from & ~(page - 1);
    madvise((void *)first, (size_t)((uintptr_t)from + (uintptr_t)bytes - first), MADV_WILLNEED);
#endif
}

/* `places` and `counts` are of the pairs that are met, node after node; `ends` says where each node's end. `words` is
   the room of a mask, of which node n uses as many as widths[n] bytes need. Gives 0, or -1 where a list holds a model
   that is not there. */
EXPORT EVERY_PROCESSOR int64_t smelt_answers_right(
    const uint8_t *blocks, int64_t models, int64_t nodes, const int64_t *ends, const int64_t *places,
    const int64_t *counts, const int64_t *widths, int64_t words, const uint64_t *counted, uint64_t *wrong,
    uint32_t *right, int64_t expects) {
    int64_t pair = 0, asked = 0, asked_bytes = 0, used_bytes = 0, all = nodes ? ends[nodes - 1] : 0;
    for (int64_t node = 0, owner = 0; node < nodes; node++) {
        int64_t width = widths[node], of_node = (width + 7) / 8;
        uint64_t last = lowest(width - 8 * (of_node - 1));
        const uint64_t *counts_here = counted + node * words;
        memset(wrong, 0, (size_t)(models * of_node) * 8);
        for (; pair < ends[node]; pair++) {
            while (expects && asked < all && asked_bytes - used_bytes < AHEAD) {
                const uint8_t *from = blocks + places[asked];
                int64_t length = 0;
                do { /* pairs that lie side by side are one request */
                    while (asked >= ends[owner])
                        owner++;
                    length += counts[asked] * (2 + widths[owner]);
                    asked++;
                } while (asked < all && blocks + places[asked] == from + length && length < AHEAD);
                smelt_answers_expect(from, length);
                asked_bytes += length;
            }
            int64_t count = counts[pair];
            const uint8_t *number = blocks + places[pair], *mask = number + 2 * count;
            used_bytes += count * (2 + width);
            for (int64_t entry = 0; entry < count; entry++, number += 2, mask += width) {
                int64_t model = number[0] | number[1] << 8;
                if (model >= models)
                    return -1;
                uint64_t *to = wrong + model * of_node;
                if (of_node == 2) {
                    to[0] |= word_at(mask);
                    to[1] |= word_at(mask + 8) & last;
                } else {
                    for (int64_t word = 0; word < of_node - 1; word++)
                        to[word] |= word_at(mask + 8 * word);
                    to[of_node - 1] |= word_at(mask + 8 * (of_node - 1)) & last;
                }
            }
        }
        uint32_t *out = right + node * models;
        for (int64_t model = 0; model < models; model++) {
            int sum = 0;
            for (int64_t word = 0; word < of_node; word++)
                sum += ones(~wrong[model * of_node + word] & counts_here[word]);
            out[model] = (uint32_t)sum;
        }
    }
    return 0;
}
