// One message after the other with OpenSSL: AES-CBC and HMAC, each at the speed of the library's best code for this
// processor. Where the checksum is of the plaintext (etypes 17 and 18), sealing goes by OpenSSL's stitched cipher,
// which encrypts and hashes in one pass, when `ORTHRUS_STITCHED` is in the environment.
//
// Lengths here are whole blocks: the last two are swapped, and that is all of ciphertext stealing (RFC 3962 section 5).
#include "column.h"
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/core_names.h>

static EVP_CIPHER_CTX *ciphers[2];  // to decrypt, to encrypt
static EVP_MAC *hmac;
static EVP_MAC_CTX *mac;
static int stitched;

static void check(const char *what, int good) {
    if (!good) fail(what, good);
}

static char *digest_of(int etype) {
    return etype == 19 ? "SHA256" : etype == 20 ? "SHA384" : "SHA1";
}

static EVP_CIPHER_CTX *new_cipher(int etype, int encrypt, uint8_t key[32]) {
    EVP_CIPHER_CTX *cipher = EVP_CIPHER_CTX_new();
    const EVP_CIPHER *kind = key_len(etype) == 32 ? EVP_aes_256_cbc() : EVP_aes_128_cbc();
    if (stitched) kind = key_len(etype) == 32 ? EVP_aes_256_cbc_hmac_sha1() : EVP_aes_128_cbc_hmac_sha1();
    check("EVP_CipherInit_ex", EVP_CipherInit_ex(cipher, kind, NULL, key, key, encrypt));
    EVP_CIPHER_CTX_set_padding(cipher, 0);
    if (stitched) check("the MAC's key", EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_SET_MAC_KEY, 16, key) > 0);
    return cipher;
}

static void make_keys(int etype) {
    uint8_t key[32];
    memset(key, 7, sizeof key);
    if (mac) return;
    for (int encrypt = 0; encrypt < 2; encrypt++) ciphers[encrypt] = new_cipher(etype, encrypt, key);
    OSSL_PARAM digest[2] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest_of(etype), 0),
                            OSSL_PARAM_construct_end()};
    check("EVP_MAC_fetch", (hmac = EVP_MAC_fetch(NULL, "HMAC", NULL)) != NULL);
    check("EVP_MAC_CTX_new", (mac = EVP_MAC_CTX_new(hmac)) != NULL);
    check("EVP_MAC_init", EVP_MAC_init(mac, key, 16, digest));
}

static void crypt(int encrypt, uint8_t *data, size_t len) {
    static const uint8_t zeros[BLOCK];
    int done;
    EVP_CIPHER_CTX *cipher = ciphers[encrypt];
    check("EVP_CipherInit_ex", EVP_CipherInit_ex(cipher, NULL, NULL, NULL, zeros, encrypt));
    check("EVP_CipherUpdate", EVP_CipherUpdate(cipher, data, &done, data, (int)len));
}

static void swap_last(uint8_t *data, size_t len) {
    uint8_t last[BLOCK];
    memcpy(last, data + len - BLOCK, BLOCK);
    memcpy(data + len - BLOCK, data + len - 2 * BLOCK, BLOCK);
    memcpy(data + len - 2 * BLOCK, last, BLOCK);
}

// RFC 8009 section 5: the cipher state, zeros, comes before the ciphertext.
static void sign(int etype, int sealed, const uint8_t *data, size_t len, uint8_t out[64]) {
    static const uint8_t zeros[BLOCK];
    size_t size;
    check("EVP_MAC_init", EVP_MAC_init(mac, NULL, 0, NULL));
    if (sealed && etype >= 19) check("EVP_MAC_update", EVP_MAC_update(mac, zeros, sizeof zeros));
    check("EVP_MAC_update", EVP_MAC_update(mac, data, len));
    check("EVP_MAC_final", EVP_MAC_final(mac, out, &size, 64));
}

static void seal(const struct row *row, uint8_t *token) {
    size_t len = CONFOUNDER + row->len + HEADER;
    uint8_t digest[64] = {0}, *data = token + HEADER;
    put_header(token, WRAP, 1);
    put_header(data + CONFOUNDER + row->len, WRAP, 1);
    if (row->etype < 19 && !stitched) sign(row->etype, 1, data, len, digest);
    crypt(1, data, len);
    swap_last(data, len);
    if (row->etype >= 19) sign(row->etype, 1, data, len, digest);
    memcpy(data + len, digest, mac_len(row->etype));
}

static void open_(const struct row *row, uint8_t *token) {
    size_t len = CONFOUNDER + row->len + HEADER;
    uint8_t digest[64], *data = token + HEADER;
    if (row->etype >= 19) sign(row->etype, 1, data, len, digest);
    swap_last(data, len);
    crypt(0, data, len);
    if (row->etype < 19) sign(row->etype, 1, data, len, digest);
    if (memcmp(data + len, digest, mac_len(row->etype)) != 0) fail("the checksum", 0);
}

static void run(const struct row *row, uint8_t *token) {
    uint8_t digest[64], *checksum = token + row->len + HEADER;
    switch (row->operation) {
    case WRAP: seal(row, token); break;
    case UNWRAP: open_(row, token); break;
    case MIC:
        put_header(token + row->len, MIC, 1);
        sign(row->etype, 0, token, row->len + HEADER, digest);
        memcpy(checksum, digest, mac_len(row->etype));
        break;
    case VERIFY:
        sign(row->etype, 0, token, row->len + HEADER, digest);
        if (memcmp(checksum, digest, mac_len(row->etype)) != 0) fail("the checksum", 0);
    }
}

const char *prepare(const struct row *row, struct message *message) {
    stitched = getenv("ORTHRUS_STITCHED") != NULL;
    if (stitched && (row->operation != WRAP || row->etype >= 19)) return "the stitched cipher seals etypes 17 and 18";
    make_keys(row->etype);
    make_saved(row, message, run);
    return NULL;
}

void work(const struct row *row, struct message *messages) {
    work_each(row, messages, run);
}

void finish_row(void) {
    for (int encrypt = 0; encrypt < 2; encrypt++) {
        EVP_CIPHER_CTX_free(ciphers[encrypt]);
        ciphers[encrypt] = NULL;
    }
    EVP_MAC_CTX_free(mac);
    EVP_MAC_free(hmac);
    mac = NULL;
    hmac = NULL;
}
