// What the AES and hash units of this core can do: the instructions of AES and of the hashes on registers alone. No
// loads of data, no byte order, no transposition, no lane that waits; so nobody does more, short of better algorithms.
//
//   standard input:  KERNEL ETYPE NANOSECONDS
//   standard output: BYTES NANOSECONDS, or none REASON
//
// `aes`: full lanes; `hash`: full lanes, by vectors or SHA-NI; `both`: the two at once, as much of each; `aes-chain`: CBC encryption
// of one message; `hash-chain`: the hash of one message. Compiled once for each width: -DWIDTH=64, 32 or 16 bytes.
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define UNROLL _Pragma("GCC unroll 128")
#define INLINE static inline __attribute__((always_inline))

typedef uint32_t words32 __attribute__((vector_size(WIDTH), aligned(WIDTH)));
typedef uint64_t words64 __attribute__((vector_size(WIDTH), aligned(WIDTH)));

// Nothing that the compiler could compute in advance may be known to it.
#define OPAQUE(value) __asm__ volatile("" : "+x"(value))

// ---- AES: `AES_LANES` vectors in flight; a round of each is a round of WIDTH / 16 blocks.

#if WIDTH == 64
typedef __m512i aes_words;
#define AES_ROUND _mm512_aesenc_epi128
#elif WIDTH == 32
typedef __m256i aes_words;
#define AES_ROUND _mm256_aesenc_epi128
#else
typedef __m128i aes_words;
#define AES_ROUND _mm_aesenc_si128
#endif

enum { AES_LANES = 8, AES_BESIDE = 6 };

INLINE void aes_rounds(aes_words *lanes, int count, int from, int modulus, aes_words key) {
    UNROLL for (int i = 0; i < count; i++) lanes[(from + i) % modulus] = AES_ROUND(lanes[(from + i) % modulus], key);
}

INLINE void aes_begin(aes_words *lanes, int count, aes_words *key) {
    memset(key, 1, sizeof *key);
    OPAQUE(*key);
    UNROLL for (int i = 0; i < count; i++) {
        memset(&lanes[i], i, sizeof lanes[i]);
        OPAQUE(lanes[i]);
    }
}

INLINE void aes_end(aes_words *lanes, int count) {
    UNROLL for (int i = 0; i < count; i++) OPAQUE(lanes[i]);
}

// Sums are made in the order in which they are written.
#define HOLD(value) __asm__("" : HELD(value))
#if WIDTH == 64
#define HELD(value) "+v"(value)
#else
#define HELD(value) "+x"(value)
#endif

// ---- The hashes in lanes. AES(n) stands where n rounds of AES may go beside a round of the hash.

#if WIDTH == 64
#define TERNARY(a, b, c, table, plain) \
    ((__typeof__(a))_mm512_ternarylogic_epi32((__m512i)(a), (__m512i)(b), (__m512i)(c), table))
#else
#define TERNARY(a, b, c, table, plain) (plain)
#endif
#define CHOOSE(a, b, c) TERNARY(a, b, c, 0xca, (c) ^ ((a) & ((b) ^ (c))))
#define MAJORITY(a, b, c) TERNARY(a, b, c, 0xe8, ((a) & (b)) | ((c) & ((a) | (b))))
#define PARITY(a, b, c) TERNARY(a, b, c, 0x96, (a) ^ (b) ^ (c))
#define ROTATE_LEFT(x, n) (((x) << (n)) | ((x) >> (sizeof((x)[0]) * 8 - (n))))
#define ROTATE_RIGHT(x, n) (((x) >> (n)) | ((x) << (sizeof((x)[0]) * 8 - (n))))

// `part` of `whole` rounds of AES, spread over the rounds of a hash.
#define SHARE(round, rounds, whole) (((round) + 1) * (whole) / (rounds) - (round) * (whole) / (rounds))

#define SHA1_ROUNDS 80
INLINE void sha1(words32 *state, words32 *schedule, int aes, aes_words *lanes, aes_words key) {
    words32 a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    UNROLL for (int i = 0; i < 80; i++) {
        if (i >= 16) {
            words32 mixed = PARITY(schedule[(i + 13) % 16], schedule[(i + 8) % 16], schedule[(i + 2) % 16]);
            mixed ^= schedule[i % 16];
            schedule[i % 16] = ROTATE_LEFT(mixed, 1);
        }
        words32 mix = i < 20 ? CHOOSE(b, c, d) : i < 40 || i >= 60 ? PARITY(b, c, d) : MAJORITY(b, c, d);
        // What waits for the round before comes last.
        words32 early = e + (schedule[i % 16] + (uint32_t)(0x5a827999u + (unsigned)i / 20));
        HOLD(early);
        early += mix;
        HOLD(early);
        words32 next = early + ROTATE_LEFT(a, 5);
        e = d;
        d = c;
        c = ROTATE_LEFT(b, 30);
        b = a;
        a = next;
        aes_rounds(lanes, SHARE(i, 80, aes), i * aes / 80, AES_BESIDE, key);
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

// SHA-256 and SHA-512 differ in word, rotations and rounds.
#define SHA2(name, words, word, rounds, r0, r1, r2, s0, s1, s2, m0, m1, m2, n0, n1, n2)                                \
    INLINE void name(words *state, words *schedule, int aes, aes_words *lanes, aes_words key) {                        \
        words a = state[0], b = state[1], c = state[2], d = state[3];                                                  \
        words e = state[4], f = state[5], g = state[6], h = state[7];                                                  \
        UNROLL for (int i = 0; i < rounds; i++) {                                                                      \
            if (i >= 16) {                                                                                             \
                words x = schedule[(i + 1) % 16], y = schedule[(i + 14) % 16];                                         \
                schedule[i % 16] += schedule[(i + 9) % 16] +                                                           \
                                    PARITY(ROTATE_RIGHT(x, m0), ROTATE_RIGHT(x, m1), x >> m2) +                        \
                                    PARITY(ROTATE_RIGHT(y, n0), ROTATE_RIGHT(y, n1), y >> n2);                         \
            }                                                                                                          \
            words first = h + (schedule[i % 16] + (word)(0x428a2f98u + (unsigned)i));                                  \
            HOLD(first);                                                                                               \
            first += CHOOSE(e, f, g);                                                                                  \
            HOLD(first);                                                                                               \
            first += PARITY(ROTATE_RIGHT(e, s0), ROTATE_RIGHT(e, s1), ROTATE_RIGHT(e, s2));                            \
            words second = MAJORITY(a, b, c) + PARITY(ROTATE_RIGHT(a, r0), ROTATE_RIGHT(a, r1), ROTATE_RIGHT(a, r2));  \
            h = g;                                                                                                     \
            g = f;                                                                                                     \
            f = e;                                                                                                     \
            e = d + first;                                                                                             \
            d = c;                                                                                                     \
            c = b;                                                                                                     \
            b = a;                                                                                                     \
            a = first + second;                                                                                        \
            aes_rounds(lanes, SHARE(i, rounds, aes), i * aes / rounds, AES_BESIDE, key);                               \
        }                                                                                                              \
        state[0] += a;                                                                                                 \
        state[1] += b;                                                                                                 \
        state[2] += c;                                                                                                 \
        state[3] += d;                                                                                                 \
        state[4] += e;                                                                                                 \
        state[5] += f;                                                                                                 \
        state[6] += g;                                                                                                 \
        state[7] += h;                                                                                                 \
    }
SHA2(sha256, words32, uint32_t, 64, 2, 13, 22, 6, 11, 25, 7, 18, 3, 17, 19, 10)
SHA2(sha512, words64, uint64_t, 80, 28, 34, 39, 14, 18, 41, 1, 8, 7, 19, 61, 6)

// One message of SHA-384 has no better way than general registers.
#undef TERNARY
#undef ROTATE_RIGHT
#undef HELD
#define HELD(value) "+r"(value)
#define TERNARY(a, b, c, table, plain) (plain)
#define ROTATE_RIGHT(x, n) (((x) >> (n)) | ((x) << (64 - (n))))
SHA2(sha512_alone, uint64_t, uint64_t, 80, 28, 34, 39, 14, 18, 41, 1, 8, 7, 19, 61, 6)

// ---- SHA-NI, `streams` messages in turn. Its instructions know no wide vectors: only the narrow program has them.

#if WIDTH == 16

INLINE void sha1_ni(__m128i (*s)[2], __m128i (*w)[4], int streams, int aes, aes_words *lanes, aes_words key) {
    UNROLL for (int i = 0; i < 20; i++) {
        UNROLL for (int n = 0; n < streams; n++) {
            if (i >= 4) {
                __m128i next = _mm_sha1msg1_epu32(w[n][i % 4], w[n][(i + 1) % 4]);
                next = _mm_xor_si128(next, w[n][(i + 2) % 4]);
                w[n][i % 4] = _mm_sha1msg2_epu32(next, w[n][(i + 3) % 4]);
            }
            __m128i e = _mm_sha1nexte_epu32(s[n][1], w[n][i % 4]);
            s[n][1] = s[n][0];
            switch (i / 5) {
            case 0: s[n][0] = _mm_sha1rnds4_epu32(s[n][0], e, 0); break;
            case 1: s[n][0] = _mm_sha1rnds4_epu32(s[n][0], e, 1); break;
            case 2: s[n][0] = _mm_sha1rnds4_epu32(s[n][0], e, 2); break;
            default: s[n][0] = _mm_sha1rnds4_epu32(s[n][0], e, 3);
            }
        }
        aes_rounds(lanes, SHARE(i, 20, aes), i * aes / 20, AES_BESIDE, key);
    }
}

INLINE void sha256_ni(__m128i (*s)[2], __m128i (*w)[4], int streams, int aes, aes_words *lanes, aes_words key) {
    UNROLL for (int i = 0; i < 16; i++) {
        UNROLL for (int n = 0; n < streams; n++) {
            if (i >= 4) {
                __m128i next = _mm_sha256msg1_epu32(w[n][i % 4], w[n][(i + 1) % 4]);
                next = _mm_add_epi32(next, _mm_alignr_epi8(w[n][(i + 3) % 4], w[n][(i + 2) % 4], 4));
                w[n][i % 4] = _mm_sha256msg2_epu32(next, w[n][(i + 3) % 4]);
            }
            __m128i words = _mm_add_epi32(w[n][i % 4], _mm_set1_epi32(0x428a2f98 + i));
            s[n][1] = _mm_sha256rnds2_epu32(s[n][1], s[n][0], words);
            s[n][0] = _mm_sha256rnds2_epu32(s[n][0], s[n][1], _mm_shuffle_epi32(words, 0x0e));
        }
        aes_rounds(lanes, SHARE(i, 16, aes), i * aes / 16, AES_BESIDE, key);
    }
}
#endif

// ---- The kernels: each does about 16 KiB of work and says how many bytes it was.

enum { TURNS = 16 };

// The rounds of AES, in vectors, that so many bytes take.
#define VECTOR_ROUNDS(bytes, rounds) ((bytes) / WIDTH * (rounds))

#define LANES_KERNEL(name, hash, words, state_len, word_len, block, aes_key_rounds)                                    \
    static uint64_t name(void) {                                                                                       \
        enum { BYTES = WIDTH / (word_len) * (block) };                                                                 \
        static words state[state_len], schedule[16];                                                                   \
        aes_words lanes[AES_BESIDE], key;                                                                              \
        aes_begin(lanes, AES_BESIDE, &key);                                                                            \
        for (int turn = 0; turn < TURNS; turn++) {                                                                     \
            UNROLL for (int i = 0; i < 16; i++) OPAQUE(schedule[i]);                                                   \
            hash(state, schedule, VECTOR_ROUNDS(BYTES, aes_key_rounds), lanes, key);                                   \
        }                                                                                                              \
        aes_end(lanes, AES_BESIDE);                                                                                    \
        return (uint64_t)TURNS * BYTES;                                                                                \
    }
#if WIDTH == 16
#define SHANI_KERNEL(name, hash, streams, aes_key_rounds)                                                              \
    static uint64_t name(void) {                                                                                       \
        static __m128i state[streams][2], schedule[streams][4];                                                        \
        __m128i s[streams][2], w[streams][4];                                                                          \
        memcpy(s, state, sizeof s);                                                                                    \
        memcpy(w, schedule, sizeof w);                                                                                 \
        aes_words lanes[AES_BESIDE], key;                                                                              \
        aes_begin(lanes, AES_BESIDE, &key);                                                                            \
        for (int turn = 0; turn < TURNS; turn++)                                                                       \
            hash(s, w, streams, VECTOR_ROUNDS((streams) * 64, aes_key_rounds), lanes, key);                            \
        aes_end(lanes, AES_BESIDE);                                                                                    \
        memcpy(state, s, sizeof s);                                                                                    \
        memcpy(schedule, w, sizeof w);                                                                                 \
        return (uint64_t)TURNS * (streams) * 64;                                                                       \
    }
#else
#define SHANI_KERNEL(name, hash, streams, aes_key_rounds) enum { name = 0 };
#endif
#define ALONE_KERNEL(name, aes_key_rounds)                                                                             \
    static uint64_t name(void) {                                                                                       \
        static uint64_t state[8], schedule[16];                                                                        \
        aes_words lanes[AES_BESIDE], key;                                                                              \
        aes_begin(lanes, AES_BESIDE, &key);                                                                            \
        for (int turn = 0; turn < TURNS; turn++)                                                                       \
            sha512_alone(state, schedule, VECTOR_ROUNDS(128, aes_key_rounds), lanes, key);                             \
        aes_end(lanes, AES_BESIDE);                                                                                    \
        return (uint64_t)TURNS * 128;                                                                                  \
    }

LANES_KERNEL(lanes_sha1, sha1, words32, 5, 4, 64, 0)
LANES_KERNEL(lanes_sha1_aes128, sha1, words32, 5, 4, 64, 10)
LANES_KERNEL(lanes_sha1_aes256, sha1, words32, 5, 4, 64, 14)
LANES_KERNEL(lanes_sha256, sha256, words32, 8, 4, 64, 0)
LANES_KERNEL(lanes_sha256_aes128, sha256, words32, 8, 4, 64, 10)
LANES_KERNEL(lanes_sha512, sha512, words64, 8, 8, 128, 0)
LANES_KERNEL(lanes_sha512_aes256, sha512, words64, 8, 8, 128, 14)
SHANI_KERNEL(ni1_sha1, sha1_ni, 1, 0)
SHANI_KERNEL(ni2_sha1, sha1_ni, 2, 0)
SHANI_KERNEL(ni2_sha1_aes128, sha1_ni, 2, 10)
SHANI_KERNEL(ni2_sha1_aes256, sha1_ni, 2, 14)
SHANI_KERNEL(ni4_sha1, sha1_ni, 4, 0)
SHANI_KERNEL(ni6_sha1, sha1_ni, 6, 0)
SHANI_KERNEL(ni4_sha1_aes128, sha1_ni, 4, 10)
SHANI_KERNEL(ni6_sha1_aes128, sha1_ni, 6, 10)
SHANI_KERNEL(ni4_sha1_aes256, sha1_ni, 4, 14)
SHANI_KERNEL(ni6_sha1_aes256, sha1_ni, 6, 14)
SHANI_KERNEL(ni1_sha256, sha256_ni, 1, 0)
SHANI_KERNEL(ni2_sha256, sha256_ni, 2, 0)
SHANI_KERNEL(ni2_sha256_aes128, sha256_ni, 2, 10)
SHANI_KERNEL(ni4_sha256, sha256_ni, 4, 0)
SHANI_KERNEL(ni6_sha256, sha256_ni, 6, 0)
SHANI_KERNEL(ni4_sha256_aes128, sha256_ni, 4, 10)
SHANI_KERNEL(ni6_sha256_aes128, sha256_ni, 6, 10)
ALONE_KERNEL(alone_sha512, 0)
ALONE_KERNEL(alone_sha512_aes256, 14)

INLINE uint64_t aes_full(int rounds) {
    aes_words lanes[AES_LANES], key;
    aes_begin(lanes, AES_LANES, &key);
    for (int turn = 0; turn < 8 * TURNS; turn++) {
        UNROLL for (int round = 0; round < rounds; round++) aes_rounds(lanes, AES_LANES, 0, AES_LANES, key);
    }
    aes_end(lanes, AES_LANES);
    return (uint64_t)8 * TURNS * AES_LANES * WIDTH;
}

// CBC: the next plaintext is added to what comes out, which the last round's key can hold.
INLINE uint64_t aes_chain(int rounds) {
    __m128i block = _mm_set1_epi8(3), key = _mm_set1_epi8(5);
    OPAQUE(key);
    for (int turn = 0; turn < 8 * TURNS; turn++) {
        UNROLL for (int round = 1; round < rounds; round++) block = _mm_aesenc_si128(block, key);
        block = _mm_aesenclast_si128(block, key);
    }
    OPAQUE(block);
    return (uint64_t)8 * TURNS * 16;
}

static uint64_t aes_128(void) { return aes_full(10); }
static uint64_t aes_256(void) { return aes_full(14); }
static uint64_t chain_128(void) { return aes_chain(10); }
static uint64_t chain_256(void) { return aes_chain(14); }

typedef uint64_t (*kernel)(void);

// By etype, 17 to 20; what counts is the fastest of those named.
static const struct {
    const char *name;
    kernel ways[4][4];
} kernels[] = {
    {"aes", {{aes_128}, {aes_256}, {aes_128}, {aes_256}}},
    {"aes-chain", {{chain_128}, {chain_256}, {chain_128}, {chain_256}}},
    {"hash", {{lanes_sha1, ni2_sha1, ni4_sha1, ni6_sha1}, {lanes_sha1, ni2_sha1, ni4_sha1, ni6_sha1},
              {lanes_sha256, ni2_sha256, ni4_sha256, ni6_sha256}, {lanes_sha512, alone_sha512}}},
    {"hash-chain", {{ni1_sha1}, {ni1_sha1}, {ni1_sha256}, {alone_sha512}}},
    {"both", {{lanes_sha1_aes128, ni2_sha1_aes128, ni4_sha1_aes128, ni6_sha1_aes128},
              {lanes_sha1_aes256, ni2_sha1_aes256, ni4_sha1_aes256, ni6_sha1_aes256},
              {lanes_sha256_aes128, ni2_sha256_aes128, ni4_sha256_aes128, ni6_sha256_aes128},
              {lanes_sha512_aes256, alone_sha512_aes256}}},
};

static uint64_t processor_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void measure(kernel run, uint64_t length, uint64_t *bytes, uint64_t *used) {
    uint64_t start = processor_time();
    *bytes = *used = 0;
    while (*used < length) {
        for (int i = 0; i < 16; i++) *bytes += run();
        *used = processor_time() - start;
    }
}

static void answer(const kernel ways[4], uint64_t length) {
    uint64_t best_bytes = 0, best_used = 1;
    for (int way = 0; way < 4 && ways[way]; way++) {
        uint64_t bytes, used;
        measure(ways[way], length / 10, &bytes, &used);
        measure(ways[way], length, &bytes, &used);
        if (getenv("WAYS")) fprintf(stderr, "  way %d: %.2f GB/s\n", way, (double)bytes / (double)used);
        if ((double)bytes / (double)used > (double)best_bytes / (double)best_used) {
            best_bytes = bytes;
            best_used = used;
        }
    }
    printf("%lu %lu\n", best_bytes, best_used);
    fflush(stdout);
}

int main(void) {
    char line[128], name[16];
    while (fgets(line, sizeof line, stdin)) {
        int etype;
        uint64_t length;
        if (sscanf(line, "%15s %d %lu", name, &etype, &length) != 3 || etype < 17 || etype > 20) return 1;
        for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
            if (strcmp(kernels[i].name, name) == 0) answer(kernels[i].ways[etype - 17], length);
    }
    return 0;
}
