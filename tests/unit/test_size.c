#include <criterion/criterion.h>
#include <errno.h>

#include "launcher/size.h"
#include "store/base/macros.h"

Test(size, knows_its_units)
{
    static const struct {
        const char *text;
        int         r;
        uint64_t    n;
    } cases[] = {
        { "0", 0, 0 },
        { "4096", 0, 4096 },
        { "64K", 0, 65536 },
        { "64k", 0, 65536 },
        { "10MB", 0, 10 << 20 },
        { "1GiB", 0, 1 << 30 },
        { "2T", 0, 2ull << 40 },
        { "18446744073709551615", 0, UINT64_MAX },
        { "18446744073709551616", -ERANGE, 0 },
        { "16777216T", -ERANGE, 0 },
        { "", -EINVAL, 0 },
        { "K", -EINVAL, 0 },
        { "-1", -EINVAL, 0 },
        { "1X", -EINVAL, 0 },
        { "1 K", -EINVAL, 0 },
        { "1KK", -EINVAL, 0 },
        { "1.5G", -EINVAL, 0 },
    };
    size_t i;

    for (i = 0; i < CC_COUNT(cases); i++) {
        uint64_t n = 0;

        cr_expect_eq(size_parse(cases[i].text, &n), cases[i].r, "'%s'", cases[i].text);
        cr_expect_eq(n, cases[i].n, "'%s'", cases[i].text);
    }
}
