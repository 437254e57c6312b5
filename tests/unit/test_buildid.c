#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "backends/buildid.h"

Test(buildid, of_what_is_loaded_and_of_nothing)
{
    char   ours[BUILDID_TEXT_MAX], libc[BUILDID_TEXT_MAX];
    int    local = 0;
    size_t n = strspn(buildid_of(stdout, libc), "0123456789abcdef");

    cr_assert(strcmp(libc, "unknown") == 0 || n == BUILDID_TEXT_MAX - 1, "%s", libc);
    (void) buildid_of("a constant of ours", ours);
    cr_assert(strcmp(libc, "unknown") == 0 || strcmp(ours, libc) != 0);
    cr_assert_str_eq(buildid_of(&local, ours), "unknown");
}
