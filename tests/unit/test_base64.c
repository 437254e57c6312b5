#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "store/core/base64.h"

Test(base64, the_examples_of_rfc_4648)
{
    static const char *const plain[] = { "", "f", "fo", "foo", "foob", "fooba", "foobar" };
    static const char *const coded[] = { "", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy" };
    char    text[16];
    uint8_t bytes[16];
    size_t  i;

    for (i = 0; i < 7; i++) {
        size_t n = strlen(plain[i]);

        base64_encode((const uint8_t *) plain[i], n, text);
        cr_expect_str_eq(text, coded[i]);
        cr_expect_eq(strlen(text), BASE64_LEN(n));
        cr_expect_eq(base64_decode(coded[i], strlen(coded[i]), bytes), (ssize_t) n);
        cr_expect_arr_eq(bytes, plain[i], n);
    }
}

Test(base64, every_byte_comes_back)
{
    uint8_t in[257], out[300];
    char    text[BASE64_LEN(sizeof in) + 1];
    size_t  i;

    for (i = 0; i < sizeof in; i++)
        in[i] = (uint8_t) (i * 7);
    base64_encode(in, sizeof in, text);
    cr_assert_eq(base64_decode(text, strlen(text), out), (ssize_t) sizeof in);
    cr_assert_arr_eq(out, in, sizeof in);
}

Test(base64, what_is_no_base64_is_refused)
{
    static const char *const bad[] = { "Z", "Zg=", "Zg=a", "Z===", "Zg==Zg==", "Zm9*", "====" };
    uint8_t bytes[16];
    size_t  i;

    for (i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_expect_eq(base64_decode(bad[i], strlen(bad[i]), bytes), -EINVAL, "%s", bad[i]);
}
