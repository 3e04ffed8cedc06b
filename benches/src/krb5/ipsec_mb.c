// Many messages at once with Intel's multi-buffer library: a job of AES-CBC and HMAC for each message.
//
// A job takes 65,534 bytes at most, so its messages of 64 KiB are 64 bytes shorter. Tokens are as in RFC 3962 section 5
// and RFC 8009 section 5, except that the cipher state before the ciphertext is the header: as many bytes.
#define SHORTENED_TO (65536 - 64)
#include "column.h"
#include <intel-ipsec-mb.h>

static IMB_MGR *manager;
static _Alignas(64) uint32_t encrypt_keys[60], decrypt_keys[60];
static _Alignas(64) uint8_t inner[64], outer[64];
static const _Alignas(16) uint8_t zeros[BLOCK];

static void start(void) {
    const char *path = getenv("ORTHRUS_CPU");
    manager = alloc_mb_mgr(0);
    if (!manager) fail("alloc_mb_mgr", 0);
    if (!path || strcmp(path, "avx512") == 0) init_mb_mgr_auto(manager, NULL);
    else if (strcmp(path, "avx2") == 0) init_mb_mgr_avx2(manager);
    else init_mb_mgr_sse(manager);
    if (imb_get_errno(manager)) fail("init_mb_mgr", imb_get_errno(manager));
}

static void pad_key(int etype, uint8_t pad, uint8_t *state) {
    uint8_t block[128];
    for (size_t i = 0; i < sizeof block; i++) block[i] = pad ^ (i < 16 ? 7 : 0);
    if (etype == 19) IMB_SHA256_ONE_BLOCK(manager, block, state);
    else if (etype == 20) IMB_SHA384_ONE_BLOCK(manager, block, state);
    else IMB_SHA1_ONE_BLOCK(manager, block, state);
}

static void make_keys(int etype) {
    uint8_t key[32];
    memset(key, 7, sizeof key);
    if (!manager) start();
    if (key_len(etype) == 32) IMB_AES_KEYEXP_256(manager, key, encrypt_keys, decrypt_keys);
    else IMB_AES_KEYEXP_128(manager, key, encrypt_keys, decrypt_keys);
    pad_key(etype, 0x36, inner);
    pad_key(etype, 0x5c, outer);
}

static void ask(const struct row *row, struct message *message, uint8_t *checksum) {
    int seals = row->operation == WRAP, opens = row->operation == UNWRAP;
    size_t len = CONFOUNDER + row->len + HEADER;
    IMB_JOB *job = IMB_GET_NEXT_JOB(manager);
    memset(job, 0, sizeof *job);
    job->enc_keys = encrypt_keys;
    job->dec_keys = decrypt_keys;
    job->key_len_in_bytes = key_len(row->etype);
    job->src = message->token;
    job->dst = message->token + HEADER;
    job->iv = zeros;
    job->iv_len_in_bytes = sizeof zeros;
    job->auth_tag_output = checksum;
    job->auth_tag_output_len_in_bytes = mac_len(row->etype);
    job->u.HMAC._hashed_auth_key_xor_ipad = inner;
    job->u.HMAC._hashed_auth_key_xor_opad = outer;
    job->hash_alg = row->etype == 19 ? IMB_AUTH_HMAC_SHA_256
                    : row->etype == 20 ? IMB_AUTH_HMAC_SHA_384 : IMB_AUTH_HMAC_SHA_1;
    job->cipher_mode = seals || opens ? IMB_CIPHER_CBC : IMB_CIPHER_NULL;
    job->cipher_direction = opens ? IMB_DIR_DECRYPT : IMB_DIR_ENCRYPT;
    job->chain_order = (row->etype >= 19) == seals ? IMB_ORDER_CIPHER_HASH : IMB_ORDER_HASH_CIPHER;
    if (seals || opens) {
        job->cipher_start_src_offset_in_bytes = HEADER;
        job->msg_len_to_cipher_in_bytes = len;
        job->hash_start_src_offset_in_bytes = row->etype >= 19 ? 0 : HEADER;
        job->msg_len_to_hash_in_bytes = row->etype >= 19 ? HEADER + len : len;
    } else {
        job->msg_len_to_hash_in_bytes = row->len + HEADER;
    }
    IMB_SUBMIT_JOB(manager);
    int error = imb_get_errno(manager);
    if (error) fail(imb_get_strerror(error), error);
}

static void swap_last(uint8_t *data, size_t len) {
    uint8_t last[BLOCK];
    memcpy(last, data + len - BLOCK, BLOCK);
    memcpy(data + len - BLOCK, data + len - 2 * BLOCK, BLOCK);
    memcpy(data + len - 2 * BLOCK, last, BLOCK);
}

static uint8_t *checksum_of(const struct row *row, struct message *message) {
    size_t sealed = row->operation == WRAP || row->operation == UNWRAP ? HEADER + CONFOUNDER : 0;
    return message->token + sealed + row->len + HEADER;
}

// Everything of a token that is not a job.
static void before(const struct row *row, struct message *message) {
    size_t len = CONFOUNDER + row->len + HEADER;
    if (row->operation == WRAP) {
        put_header(message->token, WRAP, 1);
        put_header(message->token + HEADER + CONFOUNDER + row->len, WRAP, 1);
    } else if (row->operation == MIC) {
        put_header(message->token + row->len, MIC, 1);
    } else if (row->operation == UNWRAP && row->etype < 19) {
        swap_last(message->token + HEADER, len);
    }
}

void work(const struct row *row, struct message *messages) {
    uint8_t checksums[POOL_MESSAGES_MAX][64];
    int makes = row->operation == WRAP || row->operation == MIC;
    for (size_t i = 0; i < row->count; i++) {
        before(row, &messages[i]);
        ask(row, &messages[i], makes ? checksum_of(row, &messages[i]) : checksums[i]);
    }
    while (IMB_FLUSH_JOB(manager)) {}
    for (size_t i = 0; i < row->count; i++) {
        uint8_t *checksum = checksum_of(row, &messages[i]);
        if (row->operation == WRAP && row->etype < 19)
            swap_last(messages[i].token + HEADER, CONFOUNDER + row->len + HEADER);
        if (!makes && memcmp(checksum, checksums[i], mac_len(row->etype)) != 0) fail("the checksum", (long)i);
    }
}

const char *prepare(const struct row *row, struct message *message) {
    if (row->len > SHORTENED_TO) return "a job takes 65,534 bytes at most";
    make_keys(row->etype);
    message->token_len = HEADER + CONFOUNDER + row->len + HEADER + mac_len(row->etype);
    struct row inverse = {row->operation == UNWRAP ? WRAP : MIC, row->etype, 1, row->len};
    struct message saved = {message->saved, NULL, 0};
    if (row->operation == UNWRAP || row->operation == VERIFY) work(&inverse, &saved);
    return NULL;
}

void finish_row(void) {}
