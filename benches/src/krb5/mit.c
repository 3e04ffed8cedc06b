// MIT's library: krb5_k_encrypt_iov and its like, in place, with keys that the library keeps derived. The layer of
// GSS-API above it costs more, so this is the library at its best.
//
// Given "token" as its first argument it prints a wrap token and a MIC token for the benchmark to check.
#define main column_main
#include "column.h"
#undef main
#include <krb5.h>

enum { SIGN_USAGE = 25, SEAL_USAGE = 24 };  // RFC 4121 section 2: the initiator's

static krb5_context context;
static krb5_key key;

static void check(const char *what, krb5_error_code code) {
    if (code) fail(what, code);
}

static void make_key(int etype) {
    if (key) return;
    uint8_t bytes[32];
    memset(bytes, 7, sizeof bytes);
    krb5_keyblock block = {.magic = KV5M_KEYBLOCK, .enctype = etype, .length = key_len(etype), .contents = bytes};
    check("krb5_k_create_key", krb5_k_create_key(context, &block, &key));
}

static krb5_crypto_iov part(krb5_cryptotype kind, uint8_t *data, size_t len) {
    return (krb5_crypto_iov){kind, {KV5M_DATA, (unsigned)len, (char *)data}};
}

// The parts of a wrap token: confounder | plaintext and header | nothing to pad | checksum.
static void sealed_parts(const struct row *row, uint8_t *token, krb5_crypto_iov parts[4]) {
    uint8_t *at = token + HEADER;
    parts[0] = part(KRB5_CRYPTO_TYPE_HEADER, at, CONFOUNDER);
    parts[1] = part(KRB5_CRYPTO_TYPE_DATA, at + CONFOUNDER, row->len + HEADER);
    parts[2] = part(KRB5_CRYPTO_TYPE_PADDING, NULL, 0);
    parts[3] = part(KRB5_CRYPTO_TYPE_TRAILER, at + CONFOUNDER + row->len + HEADER, mac_len(row->etype));
}

// The message and the header are signed: message | header | checksum.
static void signed_parts(const struct row *row, uint8_t *token, krb5_crypto_iov parts[2]) {
    parts[0] = part(KRB5_CRYPTO_TYPE_DATA, token, row->len + HEADER);
    parts[1] = part(KRB5_CRYPTO_TYPE_CHECKSUM, token + row->len + HEADER, mac_len(row->etype));
}

static void run(const struct row *row, uint8_t *token) {
    krb5_crypto_iov parts[4];
    krb5_boolean valid;
    switch (row->operation) {
    case WRAP:
        sealed_parts(row, token, parts);
        put_header(token, WRAP, 1);
        put_header(token + HEADER + CONFOUNDER + row->len, WRAP, 1);
        check("krb5_k_encrypt_iov", krb5_k_encrypt_iov(context, key, SEAL_USAGE, NULL, parts, 4));
        break;
    case UNWRAP:
        sealed_parts(row, token, parts);
        check("krb5_k_decrypt_iov", krb5_k_decrypt_iov(context, key, SEAL_USAGE, NULL, parts, 4));
        break;
    case MIC:
        signed_parts(row, token, parts);
        put_header(token + row->len, MIC, 1);
        check("krb5_k_make_checksum_iov", krb5_k_make_checksum_iov(context, 0, key, SIGN_USAGE, parts, 2));
        break;
    case VERIFY:
        signed_parts(row, token, parts);
        check("krb5_k_verify_checksum_iov",
              krb5_k_verify_checksum_iov(context, 0, key, SIGN_USAGE, parts, 2, &valid));
        if (!valid) fail("the checksum", 0);
    }
}

const char *prepare(const struct row *row, struct message *message) {
    make_key(row->etype);
    make_saved(row, message, run);
    return NULL;
}

void work(const struct row *row, struct message *messages) {
    work_each(row, messages, run);
}

void finish_row(void) {
    krb5_k_free_key(context, key);
    key = NULL;
}

static void print_token(enum operation operation, int etype) {
    struct row row = {operation, etype, 1, 100};
    uint8_t token[512];
    fill(token, sizeof token, 0);
    fill(operation == WRAP ? token + HEADER + CONFOUNDER : token, row.len, 3);
    run(&row, token);
    size_t len = row.len + HEADER + mac_len(etype) + (operation == WRAP ? HEADER + CONFOUNDER : 0);
    for (size_t i = 0; i < len; i++) printf("%02x", token[i]);
    printf("\n");
}

int main(int argc, char **argv) {
    check("krb5_init_context", krb5_init_context(&context));
    if (argc == 1) return column_main();
    for (int etype = 17; etype <= 20 && strcmp(argv[1], "token") == 0; etype++) {
        make_key(etype);
        print_token(WRAP, etype);
        print_token(MIC, etype);
        finish_row();
    }
    return 0;
}
