#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "launcher/check_facts.h"
#include "tests/unit/fake_machine.h"

static struct nodefacts facts_of(const char *text)
{
    struct nodefacts f;

    nodefacts_parse(&f, text);
    return f;
}

Test(check_facts, go_over_the_wire_as_they_are)
{
    struct nodefacts f = { .n = 0 }, back;
    struct cc_buf    text = { .p = NULL };

    nodefacts_set(&f, "kernel", "6.1.0 = old");
    nodefacts_set(&f, "a=b\n", "two\nlines");
    nodefacts_set(&f, "empty", "");
    cr_assert_eq(nodefacts_write(&f, &text), 0);
    cr_assert_eq(cc_buf_add(&text, "", 1), 0);
    nodefacts_parse(&back, (const char *) cc_buf_data(&text));
    cr_expect_eq(back.n, 2, "what is empty is not known");
    cr_expect_str_eq(nodefacts_get(&back, "kernel"), "6.1.0 = old");
    cr_expect_str_eq(nodefacts_get(&back, "a?b?"), "two?lines");
    cr_expect_null(nodefacts_get(&back, "empty"));
    cc_buf_free(&text);
}

Test(check_facts, of_what_others_write_nothing_is_believed)
{
    char             text[FACTS_MAX * 8 + 4096];
    size_t           n = 0;
    struct nodefacts f;

    for (unsigned i = 0; i < FACTS_MAX + 5; i++)
        n += (size_t) snprintf(text + n, sizeof text - n, "k%u=v\n", i);
    f = facts_of(text);
    cr_expect_eq(f.n, FACTS_MAX);
    f = facts_of("no equals sign\n\n=\n=x\nlast=1");
    cr_expect_str_eq(nodefacts_get(&f, "last"), "1");
    memset(text, 'x', 1000);
    memcpy(text + 500, "=", 1);
    text[1000] = '\0';
    f = facts_of(text);
    cr_expect_eq(f.n, 1);
    cr_expect_eq(strlen(f.list[0].name), FACT_NAME_MAX - 1);
    cr_expect_eq(strlen(f.list[0].value), FACT_VALUE_MAX - 1);
}

Test(check_facts, who_differs_is_told_and_from_what)
{
    struct nodefacts           a = facts_of("shm=64G\nkernel=6.1\n"), b = facts_of("shm=64M\nkernel=6.1\n"),
                     c = facts_of("shm=64G\nkernel=6.1\nnic=up\n");
    const struct nodefacts     *all[] = { &b, &a, NULL, &c };
    struct nodefacts_difference d[8];

    cr_assert_eq(nodefacts_compare(all, 4, d, 8), 2);
    cr_expect_str_eq(d[0].name, "shm");
    cr_expect_str_eq(d[0].usual, "64G");
    cr_expect_str_eq(d[0].value, "64M");
    cr_expect(d[0].node == 0 && d[0].n_same == 2 && d[0].n == 3);
    cr_expect_str_eq(d[1].name, "nic");
    cr_expect_str_eq(d[1].usual, "none");
    cr_expect_str_eq(d[1].value, "up");
    cr_expect_eq(d[1].node, 3);
    cr_expect_eq(nodefacts_compare(all, 4, d, 1), 1, "there is a bound");
}

Test(check_facts, of_two_that_differ_the_first_is_the_measure)
{
    struct nodefacts            a = facts_of("glibc=2.36\n"), b = facts_of("glibc=2.31\n");
    const struct nodefacts     *all[] = { &a, &b }, *same[] = { &a, &a };
    struct nodefacts_difference d[2];

    cr_assert_eq(nodefacts_compare(all, 2, d, 2), 1);
    cr_expect(d[0].node == 1 && d[0].n_same == 1);
    cr_expect_str_eq(d[0].usual, "2.36");
    cr_expect_eq(nodefacts_compare(same, 2, d, 2), 0);
}

Test(check_facts, reads_this_machine)
{
    const struct machine m = { .root = "" };
    struct nodefacts     f;

    nodefacts_read(&f, &m);
    cr_expect_not_null(nodefacts_get(&f, "kernel"));
    cr_expect_not_null(nodefacts_get(&f, "ulimit -n (nofile)"));
    cr_expect_not_null(nodefacts_get(&f, "memory"));
    cr_expect_str_eq(nodefacts_get(&f, "ccrun"), CCRUN_VERSION);
}

Test(check_facts, reads_the_real_networks_where_there_are_such)
{
    struct fake_machine f;
    struct nodefacts    facts;

    fake_init(&f, 4);
    fake_file(&f, "/sys/class/net/lo/operstate", "unknown\n");
    fake_file(&f, "/sys/class/net/veth0/operstate", "up\n");
    fake_file(&f, "/sys/class/net/veth0/mtu", "1500\n");
    nodefacts_read(&facts, &f.m);
    cr_expect_str_eq(nodefacts_get(&facts, "NIC veth0"), "up, MTU 1500");
    cr_expect_null(nodefacts_get(&facts, "NIC lo"));
    cr_expect_str_eq(nodefacts_get(&facts, "/dev/shm"), "missing");
    cr_expect_str_eq(nodefacts_get(&facts, "CPUs"), "4");
    fake_file(&f, "/sys/class/net/eth1/operstate", "down\n");
    fake_file(&f, "/sys/class/net/eth1/mtu", "9000\n");
    fake_file(&f, "/sys/class/net/eth1/speed", "100000\n");
    fake_link(&f, "/sys/class/net/eth1/device", "../../devices/pci0");
    fake_file(&f, "/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
    fake_file(&f, "/sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
    fake_file(&f, "/sys/devices/system/node/online", "0-1\n");
    fake_file(&f, "/proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\n");
    nodefacts_read(&facts, &f.m);
    cr_expect_null(nodefacts_get(&facts, "NIC veth0"));
    cr_expect_str_eq(nodefacts_get(&facts, "NIC eth1"), "down, MTU 9000, 100 Gb/s");
    cr_expect_str_eq(nodefacts_get(&facts, "RDMA mlx5_0"), "4: ACTIVE, 400 Gb/sec (4X NDR)");
    cr_expect_str_eq(nodefacts_get(&facts, "NUMA nodes"), "2");
    cr_expect_str_eq(nodefacts_get(&facts, "memory"), "16G");
    fake_free(&f);
}
