#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "store/core/hmac.h"

static const char *hex(const uint8_t sum[SHA256_BYTES])
{
    static char text[2 * SHA256_BYTES + 1];

    for (unsigned i = 0; i < SHA256_BYTES; i++)
        (void) snprintf(text + 2 * i, 3, "%02x", sum[i]);
    return text;
}

static const char *digest(const void *bytes, size_t n, unsigned times)
{
    struct sha256 s;
    uint8_t       sum[SHA256_BYTES];

    sha256_init(&s);
    while (times-- > 0)
        sha256_add(&s, bytes, n);
    sha256_end(&s, sum);
    return hex(sum);
}

/* RFC 6234, section 8.5 */
Test(hmac, the_sums_are_those_of_the_standard)
{
    static const struct {
        const char *text;
        unsigned    times;
        const char *want;
    } all[] = {
        { "", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { "abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
        { "a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0" },
        { "0123456701234567012345670123456701234567012345670123456701234567", 10,
          "594847328451bdfa85056225462cc1d867d877fb388df0ce35f25ab5562bfbb5" },
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cr_expect_str_eq(digest(all[i].text, strlen(all[i].text), all[i].times), all[i].want, "vector %zu", i);
}

/* hashlib of Python, over the sums of 0, 1, ... 200 bytes: every length of the padding. */
Test(hmac, every_length_ends_its_last_block)
{
    struct sha256 all, one;
    uint8_t       bytes[200], sum[SHA256_BYTES];

    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t) i;
    sha256_init(&all);
    for (size_t n = 0; n <= sizeof bytes; n++) {
        sha256_init(&one);
        sha256_add(&one, bytes, n);
        sha256_end(&one, sum);
        sha256_add(&all, sum, sizeof sum);
    }
    sha256_end(&all, sum);
    cr_expect_str_eq(hex(sum), "64ef7c229fce2408b5336b6a542fea0e078c3a87d2da85cb3fc52e2008b65021");
}

Test(hmac, it_does_not_matter_how_the_bytes_come)
{
    const char *text = "a sentence that is longer than one block of sixty-four bytes, so that pieces end within the second";
    char        whole[2 * SHA256_BYTES + 1];
    size_t      n = strlen(text);

    (void) snprintf(whole, sizeof whole, "%s", digest(text, n, 1));
    for (size_t cut = 0; cut <= n; cut++) {
        struct sha256 s;
        uint8_t       sum[SHA256_BYTES];

        sha256_init(&s);
        sha256_add(&s, text, cut);
        sha256_add(&s, text + cut, n - cut);
        sha256_end(&s, sum);
        cr_expect_str_eq(hex(sum), whole, "cut at %zu", cut);
    }
}

/* RFC 4231, section 4; the 5th is given there as its first 128 bits only */
Test(hmac, the_codes_are_those_of_the_standard)
{
    static const struct {
        uint8_t     key, step;
        size_t      n_key;
        const char *key_text, *text;
        uint8_t     fill;
        const char *want;
    } all[] = {
        { 0x0b, 0, 20, NULL, "Hi There", 0, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
        { 0, 0, 4, "Jefe", "what do ya want for nothing?", 0,
          "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
        { 0xaa, 0, 20, NULL, NULL, 0xdd, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe" },
        { 0x01, 1, 25, NULL, NULL, 0xcd, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b" },
        { 0x0c, 0, 20, NULL, "Test With Truncation", 0, "a3b6167473100ee06e0c796c2955552b" },
        { 0xaa, 0, 131, NULL, "Test Using Larger Than Block-Size Key - Hash Key First", 0,
          "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54" },
        { 0xaa, 0, 131, NULL,
          "This is a test using a larger than block-size key and a larger than block-size data. The key needs to be "
          "hashed before being used by the HMAC algorithm.", 0,
          "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2" },
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        uint8_t key[131], bytes[200], got[SHA256_BYTES];
        size_t  n = all[i].text ? strlen(all[i].text) : 50;

        for (size_t j = 0; j < all[i].n_key; j++)
            key[j] = all[i].key_text ? (uint8_t) all[i].key_text[j] : (uint8_t) (all[i].key + j * all[i].step);
        memset(bytes, all[i].fill, sizeof bytes);
        if (all[i].text)
            memcpy(bytes, all[i].text, n);
        hmac_sha256(key, all[i].n_key, bytes, n, got);
        cr_expect_eq(strncmp(hex(got), all[i].want, strlen(all[i].want)), 0, "vector %zu: %s", i, hex(got));
    }
}
