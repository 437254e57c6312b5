#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/init_url.h"
#include "store/base/macros.h"

/* Name, value, name, value, ... NULL. */
static const char *lookup(void *ctx, const char *name)
{
    for (const char *const *e = ctx; e && *e; e += 2)
        if (strcmp(e[0], name) == 0)
            return e[1];
    return NULL;
}

static struct init_where where;
static struct cc_err     err;

static int read_url(const char *url, int rank, int size, const char *const *env)
{
    struct init_args a = { .url = url, .rank = rank, .world_size = size, .env = lookup, .ctx = (void *) env };

    err = (struct cc_err){ 0 };
    return init_url_read(&where, &a, &err);
}

static const char *refusal(const char *url, int rank, int size, const char *const *env)
{
    return read_url(url, rank, size, env) == -EINVAL ? err.msg : "(it was taken)";
}

static const char *const full[] = { "RANK",         "1",           "WORLD_SIZE", "4", "MASTER_ADDR",
                                    "head.example", "MASTER_PORT", "29500",      NULL };

Test(init_url, tcp_takes_the_address_from_the_url_and_the_place_from_the_query)
{
    cr_assert_eq(read_url("tcp://Head.Example:29500?rank=1&world_size=4", -1, -1, NULL), 0, "%s", err.msg);
    cr_assert_eq(where.scheme, INIT_TCP);
    cr_assert_str_eq(where.host, "head.example");
    cr_assert_eq(where.port, 29500);
    cr_assert_eq(where.rank, 1);
    cr_assert_eq(where.world_size, 4);
    cr_assert_not(where.has_server);
}

Test(init_url, what_the_caller_passes_takes_the_place_of_the_query)
{
    cr_assert_eq(read_url("tcp://[fe80::1%Eth0]:5", 0, 2, NULL), 0, "%s", err.msg);
    cr_assert_str_eq(where.host, "fe80::1%Eth0");
    cr_assert_eq(where.world_size, 2);
    cr_assert_str_eq(refusal("tcp://h:5?rank=0", -1, 2, NULL),
                     "The url: tcp://h:5?rank=0 has node-specific arguments(rank, world_size) already.");
    cr_assert_eq(read_url("tcp://h:5?rank=0", -1, -1, NULL), -EINVAL);
    cr_assert_str_eq(err.msg, "Error initializing torch.distributed using tcp:// rendezvous: "
                              "world size parameter missing");
}

Test(init_url, env_is_what_is_meant_when_nothing_is_said)
{
    cr_assert_eq(read_url(NULL, -1, -1, full), 0, "%s", err.msg);
    cr_assert_eq(where.scheme, INIT_ENV);
    cr_assert_str_eq(where.host, "head.example");
    cr_assert_eq(where.port, 29500);
    cr_assert_eq(where.rank, 1);
    cr_assert_eq(read_url("env://", 3, -1, full), 0, "%s", err.msg);
    cr_assert_eq(where.rank, 3);
    cr_assert_eq(where.world_size, 4);
}

Test(init_url, the_first_variable_that_is_missing_or_empty_is_named)
{
    static const char *const none[] = { NULL }, *const no_size[] = { "RANK", "0", "WORLD_SIZE", "", NULL },
                             *const no_port[] = { "RANK", "0", "WORLD_SIZE", "1", "MASTER_ADDR", "h", NULL };

    cr_assert_str_eq(refusal("env://", -1, -1, none),
                     "Error initializing torch.distributed using env:// "
                     "rendezvous: environment variable RANK expected, but not set");
    cr_assert(strstr(refusal("env://", -1, -1, no_size), "variable WORLD_SIZE expected, but not set"));
    cr_assert(strstr(refusal("env://", -1, -1, no_port), "variable MASTER_PORT expected, but not set"));
    cr_assert(strstr(refusal("env://", 0, 1, none), "variable MASTER_ADDR expected, but not set"));
}

Test(init_url, only_the_word_true_says_that_an_agent_serves_the_store)
{
    static const char *const yes[] = { "TORCHELASTIC_USE_AGENT_STORE", "True", NULL }, *const no[] = {
        "TORCHELASTIC_USE_AGENT_STORE", "true", NULL
    };

    cr_assert_eq(read_url("tcp://h:1", 0, 1, yes), 0);
    cr_assert(where.has_server);
    cr_assert_eq(read_url("tcp://h:1", 0, 1, no), 0);
    cr_assert_not(where.has_server);
    cr_assert_eq(read_url("file:///f", 0, 1, yes), 0);
    cr_assert_not(where.has_server);
}

Test(init_url, the_host_of_a_file_is_dropped)
{
    cr_assert_eq(read_url("file:///shared/a%20b?rank=0&world_size=1", -1, -1, NULL), 0, "%s", err.msg);
    cr_assert_str_eq(where.path, "/shared/a%20b");
    cr_assert_eq(read_url("file://dir/f", 0, 1, NULL), 0, "%s", err.msg);
    cr_assert_str_eq(where.path, "/f");
}

Test(init_url, what_is_wrong_is_named)
{
    static const struct {
        const char *url;
        int         rank, size;
        const char *says;
    } cases[] = {
        { "mpi://x", 0, 1, "No rendezvous handler for mpi://" },
        { "", 0, 1, "No rendezvous handler for ://" },
        { "tcp://h", 0, 1, "tcp:// rendezvous: port number missing" },
        { "tcp://h:1", -1, 1, "tcp:// rendezvous: rank parameter missing" },
        { "tcp://h:65536", 0, 1, "Port out of range 0-65535" },
        { "tcp://h:99999999999999999999999", 0, 1, "Port out of range 0-65535" },
        { "tcp://h:1x", 0, 1, "Port could not be cast to integer value as '1x'" },
        { "tcp://:1", 0, 1, "hostname cannot be None" },
        { "tcp://h:1?rank=a&world_size=1", -1, -1, "invalid literal for int() with base 10: 'a'" },
        { "tcp://h:1?rank&world_size=1", -1, -1, "'rank', which is not KEY=VALUE" },
        { "tcp://[::1:1", 0, 1, "Invalid IPv6 URL" },
        { "tcp://[1.2.3.4]:1", 0, 1, "An IPv4 address cannot be in brackets" },
        { "file://", 0, 1, "file:// rendezvous: path missing" },
        { "file:///f?world_size=1", -1, -1, "file:// rendezvous: rank parameter missing" },
        { "file:///f", 4, 4, "rank 4 does not exist in a world of size 4: ranks are 0 to 3" },
        { "file:///f", -2, 4, "rank -2 does not exist" },
        { "file:///f", 0, 0, "world size 0 is not from 1 to 16777216" },
    };

    for (size_t i = 0; i < CC_COUNT(cases); i++)
        cr_expect(strstr(refusal(cases[i].url, cases[i].rank, cases[i].size, NULL), cases[i].says), "%s: %s",
                  cases[i].url, err.msg);
}

Test(init_url, a_port_in_the_environment_is_a_port)
{
    static const char *const env[] = { "RANK", "0",           "WORLD_SIZE", "1", "MASTER_ADDR",
                                       "h",    "MASTER_PORT", "70000",      NULL };

    cr_assert_str_eq(refusal("env://", -1, -1, env), "port must have value from 0 to 65535 but was 70000.");
}

Test(init_url, names_that_are_too_long_are_refused)
{
    static char url[PATH_MAX + 64];
    size_t      n = (size_t) snprintf(url, sizeof url, "file:///");

    memset(url + n, 'x', PATH_MAX);
    cr_assert(strstr(refusal(url, 0, 1, NULL), "is longer than 4095 bytes"));
    url[n + PATH_MAX - 2] = '\0'; /* "/" and 4094 others */
    cr_assert_eq(read_url(url, 0, 1, NULL), 0, "%s", err.msg);
    (void) snprintf(url, sizeof url, "tcp://%0300d:1", 7);
    cr_assert(strstr(refusal(url, 0, 1, NULL), "is longer than 255 characters"));
}
