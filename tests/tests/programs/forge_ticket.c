/* Stores a service ticket that no KDC would make in a credential cache:
 * forge_ticket KEYTAB SERVICE CLIENT CACHE PAC_BYTES [ADDRESS]
 * The ticket has a signed PAC with a buffer of PAC_BYTES, and an IPv4 address if one is given. It
 * is encrypted with the key of the service, which a KDC has, too. */
#include <arpa/inet.h>
#include <krb5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Exported by the library, but in no public header. */
krb5_error_code encode_krb5_ticket(const krb5_ticket *, krb5_data **);
krb5_error_code krb5_encrypt_tkt_part(krb5_context, const krb5_keyblock *, krb5_ticket *);

static krb5_context context;

static void check(krb5_error_code code, const char *what)
{
    if (code != 0) {
        fprintf(stderr, "%s: %s\n", what, krb5_get_error_message(context, code));
        exit(1);
    }
}

/* Returns authorization data with a signed PAC, in a container that acceptors may ignore. */
static krb5_authdata **authorization(size_t bytes, krb5_timestamp now, krb5_principal client,
                                     const krb5_keyblock *key)
{
    krb5_pac pac;
    krb5_data buffer = { 0, bytes, calloc(1, bytes) }, encoded;
    check(krb5_pac_init(context, &pac), "krb5_pac_init");
    check(krb5_pac_add_buffer(context, pac, KRB5_PAC_LOGON_INFO, &buffer), "krb5_pac_add_buffer");
    check(krb5_pac_sign(context, pac, now, client, key, key, &encoded), "krb5_pac_sign");
    krb5_authdata *data = calloc(1, sizeof *data);
    data->ad_type = KRB5_AUTHDATA_WIN2K_PAC;
    data->length = encoded.length;
    data->contents = (krb5_octet *)encoded.data;
    krb5_authdata *list[] = { data, NULL }, **container;
    check(krb5_encode_authdata_container(context, KRB5_AUTHDATA_IF_RELEVANT, list, &container),
          "krb5_encode_authdata_container");
    return container;
}

int main(int argc, char **argv)
{
    if (argc < 6)
        return 2;
    check(krb5_init_context(&context), "krb5_init_context");
    krb5_keytab keytab;
    krb5_keytab_entry entry;
    krb5_principal service, client;
    krb5_ccache cache;
    check(krb5_kt_resolve(context, argv[1], &keytab), argv[1]);
    check(krb5_parse_name(context, argv[2], &service), argv[2]);
    check(krb5_parse_name(context, argv[3], &client), argv[3]);
    check(krb5_kt_get_entry(context, keytab, service, 0, 0, &entry), "krb5_kt_get_entry");
    check(krb5_cc_resolve(context, argv[4], &cache), argv[4]);
    check(krb5_cc_initialize(context, cache, client), "krb5_cc_initialize");

    krb5_keyblock session;
    check(krb5_c_make_random_key(context, entry.key.enctype, &session), "krb5_c_make_random_key");
    krb5_timestamp now = (krb5_timestamp)time(NULL);
    krb5_ticket_times times = { now, now, now + 3600, 0 };
    krb5_enc_tkt_part part = { 0 };
    part.session = &session;
    part.client = client;
    part.times = times;
    part.transited.tr_type = 1;
    if (atoi(argv[5]) > 0)
        part.authorization_data = authorization(atoi(argv[5]), now, client, &entry.key);
    struct in_addr address;
    krb5_address one = { 0 }, *addresses[] = { &one, NULL };
    if (argc > 6) {
        inet_pton(AF_INET, argv[6], &address);
        one.addrtype = ADDRTYPE_INET;
        one.length = sizeof address;
        one.contents = (krb5_octet *)&address;
        part.caddrs = addresses;
    }

    krb5_ticket ticket = { 0 };
    krb5_data *encoded;
    ticket.server = service;
    ticket.enc_part2 = &part;
    check(krb5_encrypt_tkt_part(context, &entry.key, &ticket), "krb5_encrypt_tkt_part");
    ticket.enc_part.kvno = entry.vno;
    check(encode_krb5_ticket(&ticket, &encoded), "encode_krb5_ticket");

    krb5_creds creds = { 0 };
    creds.client = client;
    creds.server = service;
    creds.keyblock = session;
    creds.times = times;
    creds.addresses = part.caddrs;
    creds.ticket = *encoded;
    check(krb5_cc_store_cred(context, cache, &creds), "krb5_cc_store_cred");
    printf("%u\n", encoded->length);
    return 0;
}
