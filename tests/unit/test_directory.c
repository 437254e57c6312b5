#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/directory_inside.h"

static const struct directory_host  host = { "10.0.0.7", "node 7", 29400, 0xfedcba9876543210 };
static const struct directory_owner owner = { "1b4e28ba-2fa1-11d2-883f-0016d3cca427", 4026531836, 4711, 12345678 };

Test(directory, what_is_written_down_is_read_back)
{
    char                   line[DIRECTORY_LINE_MAX];
    struct directory_host  h;
    struct directory_owner o;
    size_t                 n = directory_write(&host, &owner, line);

    cr_assert_str_eq(line, "ccrun 1 10.0.0.7 29400 fedcba9876543210 node_7 1b4e28ba-2fa1-11d2-883f-0016d3cca427 4026531836 4711 "
                           "12345678\n");
    cr_assert_eq(directory_read(line, n, &h, &o), 0);
    cr_expect_str_eq(h.addr, host.addr);
    cr_expect_eq(h.port, host.port);
    cr_expect_eq(h.incarnation, host.incarnation);
    cr_expect_str_eq(h.name, "node_7", "a blank would end the name");
    cr_expect_str_eq(o.boot, owner.boot);
    cr_expect_eq(o.pid_space, owner.pid_space);
    cr_expect_eq(o.pid, owner.pid);
    cr_expect_eq(o.started, owner.started);
}

Test(directory, the_longest_line_has_room)
{
    char                   line[DIRECTORY_LINE_MAX];
    struct directory_host  h = { .port = UINT16_MAX, .incarnation = UINT64_MAX };
    struct directory_owner o = { .pid_space = UINT64_MAX, .pid = INT64_MIN, .started = UINT64_MAX };

    memset(h.addr, 'f', sizeof h.addr - 1);
    memset(h.name, 'n', sizeof h.name - 1);
    memset(o.boot, 'b', sizeof o.boot - 1);
    cr_assert_lt(directory_write(&h, &o, line), sizeof line);
    cr_assert_eq(directory_read(line, strlen(line), &h, &o), 0);
}

Test(directory, every_line_that_is_cut_short_or_foreign_is_refused)
{
    static const char *const foreign[] = { "", "\n", "ccrun 2 a 1 1 n b 1 1 1\n", "ccrun 1 a 0 1 n b 1 1 1\n",
                                           "ccrun 1 a 99999 1 n b 1 1 1\n", "precious data\n" };
    char                     line[DIRECTORY_LINE_MAX];
    struct directory_host    h;
    struct directory_owner   o;
    size_t                   n = directory_write(&host, &owner, line), i;

    for (i = 0; i < n; i++)
        cr_expect_eq(directory_read(line, i, &h, &o), -EINVAL, "%zu bytes", i);
    for (i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        cr_expect_eq(directory_read(foreign[i], strlen(foreign[i]), &h, &o), -EINVAL, "%s", foreign[i]);
}
