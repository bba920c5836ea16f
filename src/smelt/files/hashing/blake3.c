/* BLAKE3 (github.com/BLAKE3-team/BLAKE3-specs) of a file whose pieces come in any order, from many threads.

   A file is a sequence of chunks of 1,024 bytes, each of which has a chaining value of its own; two neighbours make the
   value of a node above them, and so on up to the root. So whoever has a piece of the file in its cache hashes it there
   and then, many chunks side by side in the lanes of vectors, and nobody waits for what comes before it.

   A Tree knows of one file which bytes are hashed, the values of its largest complete nodes, and the few chunks of which
   only a part has come. A Stream takes a run of bytes into a tree, piece by piece.

   Called with ctypes (blake3.py), and by the vector machine, which is given the addresses of the functions for streams. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#include <windows.h>
#define EXPORT __declspec(dllexport)
#define GIVE_WAY() SwitchToThread()
#else
#include <errno.h>
#include <sched.h>
#include <unistd.h>
#define EXPORT __attribute__((visibility("default")))
#define GIVE_WAY() sched_yield()
#endif

#define CHUNK 1024
#define BLOCK 64
#define BLOCKS (CHUNK / BLOCK)
#define CV 8 /* words of a chaining value */
enum { CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8 };

static const uint32_t START[CV] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
/* Which words of a block the seven rounds use: each is the one before, with its words exchanged in the same way. */
static const uint8_t SCHEDULE[7][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8},
    {3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1}, {10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6},
    {12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4}, {9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7},
    {11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13}};

/* One block, in plain C. */

static inline uint32_t word_at(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint32_t turned(uint32_t x, int by) { return x >> by | x << (32 - by); }

#define MIX(a, b, c, d, x, y)                                                                                          \
    a += b + (x), d = turned(d ^ a, 16), c += d, b = turned(b ^ c, 12);                                                \
    a += b + (y), d = turned(d ^ a, 8), c += d, b = turned(b ^ c, 7)

static void compress(uint32_t *cv, const uint8_t *block, uint32_t length, uint64_t counter, uint32_t flags) {
    uint32_t m[16], v[16];
    for (int i = 0; i < 16; i++) m[i] = word_at(block + 4 * i);
    memcpy(v, cv, sizeof(uint32_t) * CV);
    memcpy(v + 8, START, sizeof(uint32_t) * 4);
    v[12] = (uint32_t)counter, v[13] = (uint32_t)(counter >> 32), v[14] = length, v[15] = flags;
    for (int r = 0; r < 7; r++) {
        const uint8_t *s = SCHEDULE[r];
        MIX(v[0], v[4], v[8], v[12], m[s[0]], m[s[1]]);
        MIX(v[1], v[5], v[9], v[13], m[s[2]], m[s[3]]);
        MIX(v[2], v[6], v[10], v[14], m[s[4]], m[s[5]]);
        MIX(v[3], v[7], v[11], v[15], m[s[6]], m[s[7]]);
        MIX(v[0], v[5], v[10], v[15], m[s[8]], m[s[9]]);
        MIX(v[1], v[6], v[11], v[12], m[s[10]], m[s[11]]);
        MIX(v[2], v[7], v[8], v[13], m[s[12]], m[s[13]]);
        MIX(v[3], v[4], v[9], v[14], m[s[14]], m[s[15]]);
    }
    for (int i = 0; i < CV; i++) cv[i] = v[i] ^ v[i + 8];
}

/* The value of a chunk of up to 1,024 bytes; `more` is ROOT where it is the whole file. */
static void hash_chunk(uint32_t *cv, const uint8_t *bytes, int64_t size, uint64_t number, uint32_t more) {
    uint32_t flags = CHUNK_START;
    memcpy(cv, START, sizeof START);
    for (; size > BLOCK; bytes += BLOCK, size -= BLOCK, flags = 0) compress(cv, bytes, BLOCK, number, flags);
    uint8_t last[BLOCK] = {0};
    memcpy(last, bytes, (size_t)size);
    compress(cv, last, (uint32_t)size, number, flags | CHUNK_END | more);
}

/* The value of a node, from those of its two children. */
static void hash_parent(uint32_t *cv, const uint32_t *left, const uint32_t *right, uint32_t more) {
    uint8_t block[BLOCK];
    for (int i = 0; i < CV; i++)
        for (int k = 0; k < 4; k++) {
            block[4 * i + k] = (uint8_t)(left[i] >> 8 * k);
            block[32 + 4 * i + k] = (uint8_t)(right[i] >> 8 * k);
        }
    memcpy(cv, START, sizeof START);
    compress(cv, block, BLOCK, 0, PARENT | more);
}

/* Many at once, in vectors. */

#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define WITH_LANES
#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE(type, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(type, a, b, ...) __builtin_shuffle(a, b, (type){__VA_ARGS__})
#endif
#define FOUR(f, i, x) f(i, x), f(i + 1, x), f(i + 2, x), f(i + 3, x)
#define EIGHT(f, i, x) FOUR(f, i, x), FOUR(f, i + 4, x)
#define SIXTEEN(f, i, x) EIGHT(f, i, x), EIGHT(f, i + 8, x)

#define LANES 4
#define HERE
#define NAME(name) name##_4
#define EACH_LANE(f, x) FOUR(f, 0, x)
#define EACH_BYTE(f, x) SIXTEEN(f, 0, x)
#include "blake3_lanes.h"

#if defined(__x86_64__)
#define LANES 8
#define HERE __attribute__((target("avx2")))
#define NAME(name) name##_8
#define EACH_LANE(f, x) EIGHT(f, 0, x)
#define EACH_BYTE(f, x) SIXTEEN(f, 0, x), SIXTEEN(f, 16, x)
#include "blake3_lanes.h"

#define LANES 16
#define HERE __attribute__((target("avx512f")))
#define NAME(name) name##_16
#define EACH_LANE(f, x) SIXTEEN(f, 0, x)
#define EACH_BYTE(f, x)
#include "blake3_lanes.h"
#endif
#endif

static int lanes_allowed = 16;

/* Messages that are hashed side by side here: 16, 8 or 4 in vectors, or 1. */
static int lanes_here(void) {
#if defined(WITH_LANES) && defined(__x86_64__)
    if (lanes_allowed >= 16 && __builtin_cpu_supports("avx512f")) return 16;
    if (lanes_allowed >= 8 && __builtin_cpu_supports("avx2")) return 8;
#endif
#if defined(WITH_LANES)
    if (lanes_allowed >= 4) return 4;
#endif
    return 1;
}

EXPORT int64_t smelt_blake3_lanes(void) { return lanes_here(); }

/* For tests: no more than so many, as on a processor that has no wider vectors. */
EXPORT void smelt_blake3_allow_lanes(int64_t lanes) { lanes_allowed = (int)lanes; }

/* Values of `count` chunks, which lie where `chunks` says, from chunk `number` of the file on. */
static void hash_chunks(const uint8_t *const *chunks, int64_t count, uint64_t number, uint32_t *out) {
    int64_t i = 0;
#if defined(WITH_LANES)
    const int lanes = lanes_here();
#define ALL(width) hash_##width(chunks + i, BLOCKS, number + (uint64_t)i, 1, CHUNK_START, 0, CHUNK_END, out + CV * i)
#if defined(__x86_64__)
    for (; lanes >= 16 && i + 16 <= count; i += 16) ALL(16);
    for (; lanes >= 8 && i + 8 <= count; i += 8) ALL(8);
#endif
    for (; lanes >= 4 && i + 4 <= count; i += 4) ALL(4);
#undef ALL
#endif
    for (; i < count; i++) hash_chunk(out + CV * i, chunks[i], CHUNK, number + (uint64_t)i, 0);
}

/* Values of the parents of 2 `count` nodes, whose values lie one after the other; in their place. */
static void hash_parents(uint32_t *values, int64_t count) {
    int64_t i = 0;
#if defined(WITH_LANES)
    const int lanes = lanes_here();
    const uint8_t *blocks[16];
    uint32_t found[16 * CV]; /* parents of the first nodes overwrite others that are read already, but not in lanes */
#define ALL(width)                                                                                                     \
    for (int k = 0; k < width; k++) blocks[k] = (const uint8_t *)(values + 2 * CV * (i + k));                          \
    hash_##width(blocks, 1, 0, 0, 0, PARENT, 0, found);                                                                \
    memcpy(values + CV * i, found, sizeof(uint32_t) * CV * width)
#if defined(__x86_64__)
    for (; lanes >= 16 && i + 16 <= count; i += 16) { ALL(16); }
    for (; lanes >= 8 && i + 8 <= count; i += 8) { ALL(8); }
#endif
    for (; lanes >= 4 && i + 4 <= count; i += 4) { ALL(4); }
#undef ALL
#endif
    for (; i < count; i++) {
        uint32_t cv[CV];
        hash_parent(cv, values + 2 * CV * i, values + 2 * CV * i + CV, 0);
        memcpy(values + CV * i, cv, sizeof cv);
    }
}

/* Trees. */

typedef struct {
    int64_t first;  /* its first chunk; it has 2^level of them */
    int64_t level;
    uint32_t value[CV];
} Node;

typedef struct {
    int64_t number;
    int64_t there;  /* how many of its bytes have come */
    uint8_t bytes[CHUNK];
} Part;

typedef struct {
    int64_t start, end;
} Interval;

typedef struct {
    int64_t size, chunks;
    int lock, failed; /* failed: there was no memory */
    Interval *taken;  /* bytes that somebody hashes or has hashed, in their order, with gaps between them */
    Node *nodes;      /* complete nodes whose parents are not complete, in the order of their chunks */
    Part **parts;     /* chunks of which some bytes have come, in their order */
    int64_t n_taken, n_nodes, n_parts, room_taken, room_nodes, room_parts;
} Tree;

static void lock(Tree *tree) {
    for (int tries = 0; __atomic_exchange_n(&tree->lock, 1, __ATOMIC_ACQUIRE); tries++)
        if (tries > 64) GIVE_WAY();
}

static void unlock(Tree *tree) { __atomic_store_n(&tree->lock, 0, __ATOMIC_RELEASE); }

/* Room for one more entry at `at` of an array; its entries from there on move up. */
static void *opened(Tree *tree, void **array, int64_t *count, int64_t *room, size_t size, int64_t at) {
    if (*count == *room) {
        const int64_t more = *room ? 2 * *room : 64;
        void *grown = realloc(*array, (size_t)more * size);
        if (!grown) {
            tree->failed = 1;
            return 0;
        }
        *array = grown, *room = more;
    }
    char *here = (char *)*array + (size_t)at * size;
    memmove(here + size, here, (size_t)(*count - at) * size);
    ++*count;
    return here;
}

static void closed(void *array, int64_t *count, size_t size, int64_t at) {
    char *here = (char *)array + (size_t)at * size;
    memmove(here, here + size, (size_t)(--*count - at) * size);
}

/* Mark bytes as taken; 0 where some of them are already, and nothing is marked. */
static int take(Tree *tree, int64_t start, int64_t end) {
    int64_t low = 0, high = tree->n_taken;
    while (low < high) { /* the first that ends behind the start */
        const int64_t middle = (low + high) / 2;
        if (tree->taken[middle].end < start) low = middle + 1; else high = middle;
    }
    const int meets = low < tree->n_taken && tree->taken[low].end == start; /* it ends where these begin */
    const int64_t next = low + meets;
    if (next < tree->n_taken && tree->taken[next].start < end) return 0;
    const int joins = next < tree->n_taken && tree->taken[next].start == end;
    if (meets && joins) {
        tree->taken[low].end = tree->taken[next].end;
        closed(tree->taken, &tree->n_taken, sizeof(Interval), next);
    } else if (meets) {
        tree->taken[low].end = end;
    } else if (joins) {
        tree->taken[next].start = start;
    } else {
        Interval *new = opened(tree, (void **)&tree->taken, &tree->n_taken, &tree->room_taken, sizeof(Interval), low);
        if (!new) return 0;
        new->start = start, new->end = end;
    }
    return 1;
}

/* Whether a node may be made out of its children: it lies within the file, and is not the root, which ends otherwise. */
static int is_inner(const Tree *tree, int64_t first, int64_t level) {
    const int64_t wide = (int64_t)1 << level;
    return first + wide <= tree->chunks && wide < tree->chunks;
}

/* A complete node; with its sibling it makes their parent. */
static void add_node(Tree *tree, int64_t first, int64_t level, const uint32_t *value) {
    int64_t low = 0, high = tree->n_nodes;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (tree->nodes[middle].first < first) low = middle + 1; else high = middle;
    }
    Node *node = opened(tree, (void **)&tree->nodes, &tree->n_nodes, &tree->room_nodes, sizeof(Node), low);
    if (!node) return;
    node->first = first, node->level = level;
    memcpy(node->value, value, sizeof node->value);
    for (int64_t at = low;;) {
        node = tree->nodes + at;
        const int is_right = (int)(node->first >> node->level & 1);
        const int64_t left = is_right ? at - 1 : at, above = node->first >> (node->level + 1) << (node->level + 1);
        if (left < 0 || left + 1 >= tree->n_nodes || !is_inner(tree, above, node->level + 1)) return;
        Node *one = tree->nodes + left, *other = one + 1;
        if (one->level != other->level || one->first != above || other->first != above + ((int64_t)1 << one->level)) return;
        uint32_t cv[CV];
        hash_parent(cv, one->value, other->value, 0);
        memcpy(one->value, cv, sizeof cv);
        one->level++;
        closed(tree->nodes, &tree->n_nodes, sizeof(Node), left + 1);
        at = left;
    }
}

/* Bytes of one chunk, from `offset` in it on. */
static void add_part(Tree *tree, int64_t number, int64_t offset, const uint8_t *bytes, int64_t size) {
    int64_t low = 0, high = tree->n_parts;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (tree->parts[middle]->number < number) low = middle + 1; else high = middle;
    }
    if (low == tree->n_parts || tree->parts[low]->number != number) {
        Part *new = malloc(sizeof(Part));
        Part **place = new ? opened(tree, (void **)&tree->parts, &tree->n_parts, &tree->room_parts, sizeof(Part *), low) : 0;
        if (!place) {
            free(new);
            tree->failed = 1;
            return;
        }
        *place = new;
        new->number = number, new->there = 0;
    }
    Part *part = tree->parts[low];
    memcpy(part->bytes + offset, bytes, (size_t)size);
    part->there += size;
    const int64_t whole = number + 1 < tree->chunks ? CHUNK : tree->size - number * CHUNK;
    if (part->there < whole || tree->chunks == 1) return;
    uint32_t cv[CV];
    hash_chunk(cv, part->bytes, whole, (uint64_t)number, 0);
    closed(tree->parts, &tree->n_parts, sizeof(Part *), low);
    free(part);
    add_node(tree, number, 0, cv);
}

EXPORT Tree *smelt_blake3_tree(int64_t size) {
    Tree *tree = calloc(1, sizeof(Tree));
    if (tree) tree->size = size, tree->chunks = size ? (size + CHUNK - 1) / CHUNK : 1;
    return tree;
}

EXPORT void smelt_blake3_free(Tree *tree) {
    for (int64_t i = 0; i < tree->n_parts; i++) free(tree->parts[i]);
    free(tree->parts);
    free(tree->nodes);
    free(tree->taken);
    free(tree);
}

/* What one process has hashed of a file, for the tree of another: a mark, three counts, then intervals, nodes, parts. */

enum { MARK = 0x33454b4c42, HEAD = 4 * sizeof(int64_t) };

static size_t packed_size(const Tree *tree) {
    return HEAD + sizeof(Interval) * (size_t)tree->n_taken + sizeof(Node) * (size_t)tree->n_nodes +
           sizeof(Part) * (size_t)tree->n_parts;
}

EXPORT int64_t smelt_blake3_packed(Tree *tree) { return (int64_t)packed_size(tree); }

/* Write all that has come and forget it: the tree is as if new. Nobody may be hashing into it. */
EXPORT void smelt_blake3_pack(Tree *tree, uint8_t *out) {
    const int64_t head[4] = {MARK, tree->n_taken, tree->n_nodes, tree->n_parts};
    memcpy(out, head, HEAD), out += HEAD;
    if (tree->n_taken) memcpy(out, tree->taken, sizeof(Interval) * (size_t)tree->n_taken);
    out += sizeof(Interval) * (size_t)tree->n_taken;
    if (tree->n_nodes) memcpy(out, tree->nodes, sizeof(Node) * (size_t)tree->n_nodes);
    out += sizeof(Node) * (size_t)tree->n_nodes;
    for (int64_t i = 0; i < tree->n_parts; i++, out += sizeof(Part)) {
        memcpy(out, tree->parts[i], sizeof(Part));
        free(tree->parts[i]);
    }
    tree->n_taken = tree->n_nodes = tree->n_parts = 0;
}

/* The edges of an interval: what has come of chunks that do not lie in it as a whole. */
static void join_part(Tree *tree, const Part *part, const Interval *of) {
    const int64_t first = part->number * CHUNK, next = first + CHUNK;
    const int64_t start = of->start > first ? of->start : first, end = of->end < next ? of->end : next;
    if (start < end) add_part(tree, part->number, start - first, part->bytes + (start - first), end - start);
}

/* Take in what another process packed of the same file: 1, or 0 where it is nothing of that kind. Of an interval of
   which something has come already nothing is taken: whoever asks for the hash reads what is missing. */
EXPORT int64_t smelt_blake3_unpack(Tree *tree, const uint8_t *from, int64_t size) {
    int64_t head[4];
    if (size < (int64_t)HEAD) return 0;
    memcpy(head, from, HEAD);
    const int64_t most = size / (int64_t)sizeof(Interval);
    if (head[0] != MARK || head[1] < 0 || head[2] < 0 || head[3] < 0 || head[1] > most || head[2] > most || head[3] > most)
        return 0;
    const size_t nodes_at = HEAD + sizeof(Interval) * (size_t)head[1], parts_at = nodes_at + sizeof(Node) * (size_t)head[2];
    if (parts_at + sizeof(Part) * (size_t)head[3] != (size_t)size) return 0;
    lock(tree);
    int64_t n = 0, p = 0; /* the first node and part that may lie in the interval or behind it */
    for (int64_t i = 0; i < head[1]; i++) {
        Interval of;
        memcpy(&of, from + HEAD + sizeof(Interval) * (size_t)i, sizeof of);
        const int is_new = of.start >= 0 && of.start < of.end && of.end <= tree->size && take(tree, of.start, of.end);
        for (; n < head[2]; n++) {
            Node node;
            memcpy(&node, from + nodes_at + sizeof(Node) * (size_t)n, sizeof node);
            if (node.first * CHUNK >= of.end) break;
            if (is_new) add_node(tree, node.first, node.level, node.value);
        }
        for (; p < head[3]; p++) {
            Part part;
            memcpy(&part, from + parts_at + sizeof(Part) * (size_t)p, sizeof part);
            if (part.number * CHUNK >= of.end) break;
            if (is_new) join_part(tree, &part, &of);
            if ((part.number + 1) * CHUNK > of.end) break; /* the next interval may begin in this chunk */
        }
    }
    unlock(tree);
    return 1;
}

/* The first bytes from `from` on that nobody has taken; 0 where there are none. */
EXPORT int64_t smelt_blake3_gap(Tree *tree, int64_t from, int64_t *start, int64_t *end) {
    lock(tree);
    int64_t at = from, limit = tree->size;
    for (int64_t i = 0; i < tree->n_taken; i++) {
        if (tree->taken[i].end <= at) continue;
        if (tree->taken[i].start > at) {
            limit = tree->taken[i].start;
            break;
        }
        at = tree->taken[i].end;
    }
    unlock(tree);
    *start = at, *end = limit;
    return at < limit;
}

/* The hash, 32 bytes, once all bytes have come: 1, or 0 where they have not. */
EXPORT int64_t smelt_blake3_root(Tree *tree, uint8_t *digest) {
    uint32_t cv[CV];
    int64_t covered = 0;
    for (int64_t i = 0; i < tree->n_nodes; i++) covered += (int64_t)1 << tree->nodes[i].level;
    if (tree->failed) return 0;
    if (tree->chunks == 1) {
        if (tree->size && (!tree->n_parts || tree->parts[0]->there < tree->size)) return 0;
        hash_chunk(cv, tree->size ? tree->parts[0]->bytes : (const uint8_t *)"", tree->size, 0, ROOT);
    } else {
        if (covered != tree->chunks) return 0;
        memcpy(cv, tree->nodes[tree->n_nodes - 1].value, sizeof cv);
        for (int64_t i = tree->n_nodes - 2; i >= 0; i--) {
            uint32_t above[CV];
            hash_parent(above, tree->nodes[i].value, cv, i ? 0 : ROOT);
            memcpy(cv, above, sizeof cv);
        }
    }
    for (int i = 0; i < CV; i++)
        for (int k = 0; k < 4; k++) digest[4 * i + k] = (uint8_t)(cv[i] >> 8 * k);
    return 1;
}

/* Streams. */

#define AT_ONCE 256 /* chunks whose values are wanted together */

typedef struct {
    Tree *tree;
    int64_t position; /* of the byte that comes next */
    int64_t held;     /* bytes of a chunk that is not complete, before the position */
    int64_t first;    /* the chunk of the first value */
    int64_t count;
    uint8_t rest[CHUNK];
    uint32_t values[]; /* of chunks that came one after the other */
} Stream;

/* For bytes `start` to `end` of a file, which are to come; 0 where some of them came before and need not be hashed again. */
EXPORT Stream *smelt_blake3_open(Tree *tree, int64_t start, int64_t end) {
    if (start >= end) return 0;
    lock(tree);
    const int is_new = take(tree, start, end);
    unlock(tree);
    if (!is_new) return 0;
    const size_t most = (size_t)((end - start) / CHUNK + 1);
    Stream *stream = malloc(sizeof(Stream) + sizeof(uint32_t) * CV * most);
    if (!stream) {
        tree->failed = 1;
        return 0;
    }
    stream->tree = tree, stream->position = start, stream->first = (start + CHUNK - 1) / CHUNK;
    stream->held = stream->count = 0;
    return stream;
}

/* The next bytes of a stream. */
EXPORT void smelt_blake3_feed(Stream *stream, const uint8_t *bytes, int64_t size) {
    Tree *tree = stream->tree;
    const int64_t before = stream->position % CHUNK;
    const int began_elsewhere = before && !stream->held && stream->position / CHUNK < stream->first;
    if (size && (began_elsewhere || tree->chunks == 1)) { /* a single chunk is hashed by smelt_blake3_root */
        const int64_t some = size < CHUNK - before ? size : CHUNK - before;
        lock(tree);
        add_part(tree, stream->position / CHUNK, before, bytes, some);
        unlock(tree);
        bytes += some, size -= some, stream->position += some;
    }
    while (size) {
        const uint8_t *chunks[AT_ONCE];
        uint8_t whole[CHUNK];
        int64_t n = 0;
        if (stream->held) {
            const int64_t some = size < CHUNK - stream->held ? size : CHUNK - stream->held;
            memcpy(stream->rest + stream->held, bytes, (size_t)some);
            bytes += some, size -= some, stream->position += some, stream->held += some;
            if (stream->held < CHUNK) return;
            memcpy(whole, stream->rest, CHUNK);
            chunks[n++] = whole, stream->held = 0;
        }
        for (; n < AT_ONCE && size >= CHUNK; bytes += CHUNK, size -= CHUNK, stream->position += CHUNK) chunks[n++] = bytes;
        if (n) {
            hash_chunks(chunks, n, (uint64_t)(stream->first + stream->count), stream->values + CV * stream->count);
            stream->count += n;
        } else {
            memcpy(stream->rest, bytes, (size_t)size);
            stream->held = size, stream->position += size, size = 0;
        }
    }
}

/* Values of chunks that follow each other: as far up as they have siblings among themselves, many at once. */
static void add_run(Tree *tree, int64_t first, uint32_t *values, int64_t count) {
    for (int64_t level = 0; count; level++) {
        if (first & 1) { /* a right child whose sibling came elsewhere */
            add_node(tree, first << level, level, values);
            values += CV, first++, count--;
        }
        if (count & 1) add_node(tree, (first + count - 1) << level, level, values + CV * (count - 1));
        count /= 2;
        if (count && !is_inner(tree, first << level, level + 1)) { /* the two halves of the file stay apart */
            add_node(tree, first << level, level, values);
            add_node(tree, (first + 1) << level, level, values + CV);
            return;
        }
        hash_parents(values, count);
        first /= 2;
    }
}

/* All bytes of a stream have come. */
EXPORT void smelt_blake3_close(Stream *stream) {
    Tree *tree = stream->tree;
    lock(tree);
    if (stream->held) add_part(tree, (stream->position - stream->held) / CHUNK, 0, stream->rest, stream->held);
    add_run(tree, stream->first, stream->values, stream->count);
    unlock(tree);
    free(stream);
}

/* Bytes that lie in memory, from `start` of the file on. */
EXPORT void smelt_blake3_add(Tree *tree, int64_t start, const uint8_t *bytes, int64_t size) {
    Stream *stream = smelt_blake3_open(tree, start, start + size);
    if (!stream) return;
    smelt_blake3_feed(stream, bytes, size);
    smelt_blake3_close(stream);
}

#if !defined(_WIN32)
/* Bytes that are read from a file: 1, or 0 where it ends before. */
EXPORT int64_t smelt_blake3_read(Tree *tree, int64_t file, int64_t start, int64_t end) {
    enum { ROOM = 1 << 17 };
    uint8_t room[ROOM];
    int64_t at = start;
    Stream *stream = smelt_blake3_open(tree, start, end);
    if (!stream) return 1;
    while (at < end) {
        const size_t want = (size_t)(end - at < ROOM ? end - at : ROOM);
        const ssize_t got = pread((int)file, room, want, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        smelt_blake3_feed(stream, room, got);
        at += got;
    }
    smelt_blake3_close(stream);
    return at == end;
}
#endif
