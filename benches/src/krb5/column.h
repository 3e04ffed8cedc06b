// What the columns of `cargo xtask bench krb5` have in common: a program that runs one row at a time on request.
//
//   standard input:  OPERATION ETYPE COUNT LEN NANOSECONDS
//   standard output: BYTES NANOSECONDS      plaintext bytes worked on, processor time of this thread
//                    none REASON            where the row cannot be run
//
// Every column works on the same shape of memory: several batches of COUNT messages of LEN bytes each, about a
// mebibyte together, so that the clock is read seldom and nobody works on one warm message alone.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum operation { WRAP, UNWRAP, MIC, VERIFY };

struct row {
    enum operation operation;
    int etype;
    size_t count, len;
};

// A message: room for the header, the confounder, the plaintext, the copy of the header and the checksum.
struct message {
    uint8_t *token;  // now
    uint8_t *saved;  // as it is before each run
    size_t token_len;
};

enum { HEADER = 16, CONFOUNDER = 16, BLOCK = 16, TRAILER_MAX = 40, POOL_BYTES = 1 << 20, POOL_MESSAGES_MAX = 256 };

// Each column has these three.
const char *prepare(const struct row *row, struct message *message);  // makes `saved`; the reason why not, or NULL
void work(const struct row *row, struct message *messages);           // COUNT messages
void finish_row(void);                                                // frees what `prepare` took

static inline _Noreturn void fail(const char *what, long code) {
    fprintf(stderr, "%s failed: %ld\n", what, code);
    exit(1);
}

static inline size_t mac_len(int etype) {
    return etype == 19 ? 16 : etype == 20 ? 24 : 12;
}

static inline size_t key_len(int etype) {
    return etype == 18 || etype == 20 ? 32 : 16;
}

// RFC 4121 section 4.2.6: what the initiator sends, with the acceptor's subkey.
static inline void put_header(uint8_t *to, enum operation operation, uint8_t sequence) {
    static const uint8_t wrap[8] = {5, 4, 6, 0xff}, mic[8] = {4, 4, 4, 0xff, 0xff, 0xff, 0xff, 0xff};
    memcpy(to, operation == WRAP || operation == UNWRAP ? wrap : mic, 8);
    memset(to + 8, 0, 8);
    to[15] = sequence;
}

static inline void fill(uint8_t *to, size_t len, unsigned seed) {
    for (size_t i = 0; i < len; i++) to[i] = (uint8_t)((i * 2654435761u + seed) >> 7);
}

// The length of a row's token. A message to open or to check is made by `run` with the inverse operation.
static inline void make_saved(const struct row *row, struct message *message, void (*run)(const struct row *, uint8_t *)) {
    message->token_len = HEADER + CONFOUNDER + row->len + HEADER + mac_len(row->etype);
    struct row inverse = *row;
    inverse.operation = row->operation == UNWRAP ? WRAP : MIC;
    if (row->operation == UNWRAP || row->operation == VERIFY) run(&inverse, message->saved);
}

// Works on messages one after the other.
static inline void work_each(const struct row *row, struct message *all, void (*run)(const struct row *, uint8_t *)) {
    for (size_t i = 0; i < row->count; i++) run(row, all[i].token);
}

static inline uint64_t processor_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct message messages[POOL_MESSAGES_MAX];
static size_t pool;

static size_t batches_of(const struct row *row) {
    size_t batches = POOL_BYTES / (row->count * (row->len + 64));
    size_t most = POOL_MESSAGES_MAX / row->count;
    return batches < 1 ? 1 : batches > most ? most : batches;
}

static void forget(void) {
    finish_row();
    for (size_t i = 0; i < pool; i++) {
        free(messages[i].token);
        free(messages[i].saved);
    }
    pool = 0;
}

static const char *set_up(const struct row *row) {
    pool = batches_of(row) * row->count;
    for (size_t i = 0; i < pool; i++) {
        size_t room = (HEADER + CONFOUNDER + row->len + TRAILER_MAX + 63) / 64 * 64;
        messages[i] = (struct message){aligned_alloc(64, room), aligned_alloc(64, room), 0};
        fill(messages[i].saved, room, (unsigned)i);
        const char *reason = prepare(row, &messages[i]);
        if (reason) {
            pool = i + 1;
            return reason;
        }
    }
    return NULL;
}

static uint64_t once(const struct row *row) {
    for (size_t i = 0; i < pool; i++) memcpy(messages[i].token, messages[i].saved, messages[i].token_len);
    uint64_t start = processor_time();
    for (size_t i = 0; i < pool; i += row->count) work(row, &messages[i]);
    return processor_time() - start;
}

static int parse(const char *line, struct row *row, uint64_t *length) {
    static const char *const names[] = {"wrap", "unwrap", "mic", "verify"};
    char name[16];
    if (sscanf(line, "%15s %d %zu %zu %lu", name, &row->etype, &row->count, &row->len, length) != 5) return 0;
    for (int i = 0; i < 4; i++) {
        row->operation = (enum operation)i;
        if (strcmp(name, names[i]) == 0) return row->count > 0 && row->count <= POOL_MESSAGES_MAX;
    }
    return 0;
}

int main(void) {
    char line[128], before[128] = "";
    const char *reason = NULL;
    while (fgets(line, sizeof line, stdin)) {
        struct row row;
        uint64_t length, used = 0, bytes = 0;
        if (!parse(line, &row, &length)) fail(line, 0);
#ifdef SHORTENED_TO
        if (row.len == 65536) row.len = SHORTENED_TO;
#endif
        if (strcmp(line, before) != 0) {
            forget();
            reason = set_up(&row);
            strcpy(before, line);
        }
        if (reason) {
            printf("none %s\n", reason);
        } else {
            once(&row);
            while (used < length) {
                used += once(&row);
                bytes += pool * row.len;
            }
            printf("%lu %lu\n", bytes, used);
        }
        fflush(stdout);
    }
    forget();
    return 0;
}
