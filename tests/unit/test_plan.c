#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "launcher/plan.h"
#include "store/base/macros.h"

enum { ARGS_MAX = 24 };

struct planned {
    struct options     o;
    struct plan_values p;
    struct cc_err      err;
    char              *argv[ARGS_MAX];
    char               words[512];
    int                r;
};

static const char *no_env(const char *name)
{
    (void) name;
    return NULL;
}

/* A command line, split at blanks; "" is an empty word. */
static void plan(struct planned *t, const char *line)
{
    char  *word, *rest = t->words;
    size_t n = 0;

    memset(t, 0, sizeof *t);
    (void) snprintf(t->words, sizeof t->words, "ccrun %s s.py", line);
    while ((word = strsep(&rest, " ")) != NULL) {
        cr_assert_lt(n, ARGS_MAX - 1);
        if (*word)
            t->argv[n++] = strcmp(word, "\"\"") == 0 ? word + 2 : word;
    }
    t->r = options_parse(&t->o, t->argv, no_env, &t->err);
    if (t->r == 0)
        t->r = plan_resolve(&t->p, &t->o, "RANDOM", &t->err);
    options_free(&t->o);
}

static void assert_error(const char *line, const char *message)
{
    struct planned t;

    plan(&t, line);
    cr_expect_eq(t.r, -EINVAL, "%s: accepted", line);
    cr_expect_str_eq(t.err.msg, message, "%s: %s", line, t.err.msg);
}

Test(plan, bad_values_have_the_sentences_of_torchrun)
{
    static const struct {
        const char *line, *message;
    } cases[] = {
        { "--nnodes 1:2:3", "nnodes=1:2:3 is not in \"MIN:MAX\" format" },
        { "--nnodes a", "--nnodes: invalid literal for int() with base 10: 'a'" },
        { "--nnodes=1:", "--nnodes: invalid literal for int() with base 10: ''" },
        { "--nnodes \"\"", "--nnodes: invalid literal for int() with base 10: ''" },
        { "--nnodes 0", "min_nodes must be > 0 and <= max_nodes, got min_nodes=0, max_nodes=0" },
        { "--nnodes -1", "min_nodes must be > 0 and <= max_nodes, got min_nodes=-1, max_nodes=-1" },
        { "--nnodes 3:2", "min_nodes must be > 0 and <= max_nodes, got min_nodes=3, max_nodes=2" },
        { "--nnodes 99999999999999999999", "--nnodes: 99999999999999999999 is out of range (1 to 65536)" },
        { "--max-restarts -1", "max_restarts must be >= 0, got -1" },
        { "--rdzv-conf a", "The rendezvous configuration option 'a' must have a value specified." },
        { "--rdzv-conf read_timeout=0", "The read timeout must be a positive integer." },
        { "--local-ranks-filter x", "--local_ranks_filter must be a comma-separated list of integers e.g. "
                                    "--local_ranks_filter=0,1,2; got 'x'" },
        { "--logs-specs foo",
          "Could not find entrypoint under 'torchrun.logs_specs[foo]' key: ccrun loads no Python plug-ins" },
        { "-r 4", "--redirects: 4 does not match: <^[0123]$> or <^(\\d:[0123],)*(\\d:[0123])$> (0 none, 1 stdout, "
          "2 stderr, 3 both, for all workers or as RANK:WHAT,...)" },
        { "-t 0:1,", "--tee: 0:1, does not match: <^[0123]$> or <^(\\d:[0123],)*(\\d:[0123])$> (0 none, 1 stdout, "
          "2 stderr, 3 both, for all workers or as RANK:WHAT,...)" },
        { "--shutdown-timeout -1", "shutdown_timeout must be non-negative, got -1" },
        { "--no-python -m",
          "Don't use both the '--no-python' flag and the '--module' flag at the same time." },
        { "--rdzv-backend=", "The rendezvous backend name must be a non-empty string." },
        { "--rdzv-backend foo",
          "The rendezvous backend 'foo' is not registered: ccrun has static, c10d, etcd-v2 and etcd" },
        { "--rdzv-backend c10",
          "The rendezvous backend 'c10' is not registered: ccrun has static, c10d, etcd-v2 and etcd; did you "
          "mean c10d?" },
        { "--rdzv-endpoint h", "port is missing in endpoint: h. Try to specify --master-port" },
        { "--rdzv-endpoint h:x",
          "The port number of the rendezvous endpoint 'h:x' must be an integer between 0 and 65536." },
        { "--rdzv-backend c10d --rdzv-endpoint ~",
          "The hostname of the rendezvous endpoint '~' must be a dot-separated list of "
          "labels, an IPv4 address, or an IPv6 address." },
        { "--master-port 70000",
          "The port number of the rendezvous endpoint '127.0.0.1:70000' must be an integer between 0 and "
          "65536." },
        { "--master-port -1", "The port number of the rendezvous endpoint '127.0.0.1:-1' must be an integer "
                              "between 0 and 65536." },
        { "--signals-to-handle SIGKILL", "--signals-to-handle: SIGKILL cannot be handled" },
    };
    size_t i;

    for (i = 0; i < CC_COUNT(cases); i++)
        assert_error(cases[i].line, cases[i].message);
}

#define NEEDS_ENDPOINT(nnodes)                                                                               \
    "--nnodes " nnodes " needs --rdzv-endpoint HOST[:PORT] (or CCRUN_RDZV_ENDPOINT or PET_RDZV_ENDPOINT): "  \
    "where the nodes meet, an address of one of them, the same on all"
#define NEEDS_MASTER(nnodes)                                                                                 \
    "--nnodes " nnodes " needs --master-addr ADDR (or CCRUN_MASTER_ADDR or PET_MASTER_ADDR): the address "   \
    "of node rank 0, the same on all nodes"

Test(plan, what_torchrun_leaves_without_a_sentence_has_one)
{
    static const struct {
        const char *line, *message;
    } cases[] = {
        { "--nnodes 2", NEEDS_ENDPOINT("2") },
        { "--nnodes 2:4 --rdzv-backend c10d", NEEDS_ENDPOINT("2:4") },
        { "--nnodes 1:2 --master-port 1", NEEDS_MASTER("1:2") },
        { "--nnodes 1:2 --node-rank 1", NEEDS_MASTER("1:2") },
        { "--nnodes 1 --spares 1", NEEDS_ENDPOINT("1") },
        { "--standalone --nnodes 2", "--nnodes 2 needs 2 nodes, and --standalone is for one" },
        { "--nnodes 2 --rdzv-endpoint h:0",
          "port 0 of 'h:0' is any free one, which the other nodes cannot know: name one" },
        { "--nnodes 2 --spares 1 --master-addr h --node-rank 3",
          "--node-rank 3 is out of range: the ranks of 3 nodes are 0 to 2" },
        { "--nnodes 2 --rdzv-endpoint h --node-rank -1",
          "port is missing in endpoint: h. Try to specify --master-port" },
        { "--nnodes 2 --rdzv-backend c10d --rdzv-endpoint h --node-rank -1",
          "--node-rank -1 is out of range: the ranks of 2 nodes are 0 to 1" },
        { "--max-rejoins -1", "--max-rejoins must be >= 0, got -1" },
        { "--max-restarts 1025/1h", "--max-restarts 1025/1h: within a time at most 1024 restarts can be counted" },
        { "--restart-backoff x", "--restart-backoff: 'x' is not MIN:MAX, two durations such as 1s:5m" },
        { "--no-restart-codes 0",
          "--no-restart-codes: '0' is no exit status (1 to 255), range (3-5) or signal (SIGSEGV)" },
        { "--preempt-exit-code 256", "--preempt-exit-code 256 is out of range (0 to 255)" },
        { "--preempt-signal KILL", "--preempt-signal: 'KILL' is no signal that can be handled, such as SIGUSR1" },
        { "--preempt-signal x", "--preempt-signal: 'x' is no signal that can be handled, such as SIGUSR1" },
        { "--preempt-signal TERM", "--preempt-signal TERM: --signals-to-handle has it too, and a signal either stops the job "
                                   "or announces a pre-emption" },
        { "--preempt-signal USR1 --preempt-deadline 0",
          "--preempt-deadline 0: the workers need some time, at least 0.001 s" },
        { "--iface a/b", "--iface: 'a/b' is no name of a network interface (1 to 15 bytes)" },
        { "--iface 0123456789abcdef", "--iface: '0123456789abcdef' is no name of a network interface (1 to 15 bytes)" },
        { "--subnet 10.0.0.0/33", "--subnet: '10.0.0.0/33': '33' is no number of bits from 0 to 32" },
        { "--subnet eth0", "--subnet: 'eth0' is not NETWORK/BITS, as in 10.0.0.0/16 or fd00::/64" },
        { "--spares -1", "--spares -1 is out of range (0 to 65535)" },
        { "--nnodes 2 --rdzv-endpoint h --rdzv-conf keep_alive_interval=0",
          "--rdzv-conf keep_alive_interval=0: not 1 to 3600 seconds" },
        { "--nnodes 2 --rdzv-endpoint h --rdzv-conf keep_alive_max_attempt=1001",
          "--rdzv-conf keep_alive_max_attempt=1001: not 1 to 1000" },
        { "--nnodes 2 --rdzv-endpoint h --rdzv-conf join_timeout=9999999999",
          "--rdzv-conf join_timeout=9999999999: not 1 to 1000000000 seconds" },
        { "--nnodes 2 --rdzv-endpoint h --local-addr a/b",
          "--local-addr 'a/b' is neither a host name nor an address" },
        { "--monitor-interval 0", "--monitor-interval 0 must be > 0" },
        { "--monitor-interval nan", "--monitor-interval nan must be > 0" },
        { "--event-log-handler x", "--event-log-handler: 'x' is neither null nor console" },
        { "--node-rank 1 --master-port 1",
          "--node-rank 1 is out of range: the ranks of 1 node are 0 to 0; give all nodes --nnodes N if there are more" },
        { "--node-rank -1 --nnodes 1 --master-port 1",
          "--node-rank -1 is out of range: the ranks of 1 node are 0 to 0" },
        { "--stdin x", "--stdin: 'x' is neither a local rank nor all nor none" },
        { "--stdin -1", "--stdin: '-1' is neither a local rank nor all nor none" },
        { "--log-keep -1", "--log-keep -1 is out of range (0 to 1000)" },
        { "--log-max-size 10", "--log-max-size 10 is too small: at least 4K, or 0 for no limit" },
        { "--store-max-memory 4K", "--store-max-memory 4K is too small: at least 1M" },
        { "--local-addr a/b", "--local-addr 'a/b' is neither a host name nor an address" },
        { "--local-addr 0.0.0.0", "--local-addr '0.0.0.0' is no machine's address: give the one by which the other nodes "
                                  "reach this one, or leave the option out" },
        { "--nnodes 2 --rdzv-endpoint h --local-addr ::", "--local-addr '::' is no machine's address: give the one by which "
                                                          "the other nodes reach this one, or leave the option out" },
    };
    size_t i;

    for (i = 0; i < CC_COUNT(cases); i++)
        assert_error(cases[i].line, cases[i].message);
}

Test(plan, the_rendezvous_is_the_one_of_torchrun)
{
    static const struct {
        const char *line, *backend, *run_id, *bind_host, *master_addr;
        unsigned    port;
        bool        is_named;
    } cases[] = {
        { "", "c10d", "RANDOM", "127.0.0.1", "127.0.0.1", 0, false },
        { "--standalone", "c10d", "RANDOM", "127.0.0.1", "127.0.0.1", 0, false },
        { "--standalone --rdzv-id x", "c10d", "RANDOM", "127.0.0.1", "127.0.0.1", 0, false },
        { "--rdzv-id x", "c10d", "x", "127.0.0.1", "127.0.0.1", 0, false },
        { "--rdzv-id none", "c10d", "none", "127.0.0.1", "127.0.0.1", 0, false },
        { "--rdzv-id=", "c10d", "RANDOM", "127.0.0.1", "127.0.0.1", 0, false },
        { "--local-addr 127.0.0.2", "c10d", "RANDOM", "127.0.0.2", "127.0.0.2", 0, false },
        { "--local-addr ::1", "c10d", "RANDOM", "::1", "::1", 0, false },
        { "--local-addr [::1]", "c10d", "RANDOM", "::1", "::1", 0, false },
        { "--master-port 29501", "static", "none", "127.0.0.1", "127.0.0.1", 29501, true },
        { "--master-addr localhost --master-port 1", "static", "none", "127.0.0.1", "localhost", 1, true },
        { "--master-addr [::1] --master-port 1", "static", "none", "::1", "::1", 1, true },
        { "--master-addr h --master-port 1 --local-addr 127.0.0.2", "static", "none", "h", "h", 1, true },
        { "--rdzv-endpoint h:5 --rdzv-id x", "static", "x", "h", "h", 5, true },
        { "--rdzv-endpoint h:5 --master-port 9", "static", "none", "h", "h", 5, true },
        { "--rdzv-backend c10d", "c10d", "none", "127.0.0.1", "127.0.0.1", 0, false },
        { "--rdzv-backend c10d --rdzv-endpoint localhost:7", "c10d", "none", "127.0.0.1", "localhost", 7,
          true },
        { "--rdzv-backend c10d --rdzv-endpoint localhost", "c10d", "none", "127.0.0.1", "localhost", 29400,
          false },
        { "--rdzv-backend c10d --rdzv-endpoint localhost:0", "c10d", "none", "127.0.0.1", "localhost", 0,
          false },
        { "--rdzv-backend c10d --rdzv-endpoint h:7 --local-addr 10.0.0.1", "c10d", "none", "10.0.0.1",
          "10.0.0.1", 7, true },
    };
    size_t i;

    for (i = 0; i < CC_COUNT(cases); i++) {
        struct planned t;

        plan(&t, cases[i].line);
        cr_expect_eq(t.r, 0, "%s: %s", cases[i].line, t.err.msg);
        cr_expect_str_eq(t.p.backend, cases[i].backend, "%s: %s", cases[i].line, t.p.backend);
        cr_expect_str_eq(t.p.run_id, cases[i].run_id, "%s: %s", cases[i].line, t.p.run_id);
        cr_expect_str_eq(t.p.bind_host, cases[i].bind_host, "%s: %s", cases[i].line, t.p.bind_host);
        cr_expect_str_eq(t.p.master_addr, cases[i].master_addr, "%s: %s", cases[i].line, t.p.master_addr);
        cr_expect_eq(t.p.port, cases[i].port, "%s: %u", cases[i].line, t.p.port);
        cr_expect_eq(t.p.is_port_named, cases[i].is_named, "%s", cases[i].line);
    }
}

Test(plan, several_nodes_meet_where_they_are_told)
{
    static const struct {
        const char *line, *backend, *run_id, *host;
        unsigned    port, min, max;
        int         rank;
        enum party_hosting hosting;
    } cases[] = {
        { "--nnodes 2 --rdzv-endpoint h", "c10d", "", "h", 29400, 2, 2, -1, PARTY_HOST_AUTO },
        { "--nnodes 1:4 --rdzv-endpoint [fd00::1]:7 --rdzv-id x", "c10d", "x", "fd00::1", 7, 1, 4, -1, PARTY_HOST_AUTO },
        { "--nnodes 2 --rdzv-endpoint h --rdzv-id none", "c10d", "none", "h", 29400, 2, 2, -1, PARTY_HOST_AUTO },
        { "--nnodes 1 --spares 1 --rdzv-endpoint h", "c10d", "", "h", 29400, 1, 1, -1, PARTY_HOST_AUTO },
        { "--nnodes 2:3 --master-addr h", "static", "", "h", 29500, 3, 3, -1, PARTY_HOST_AUTO },
        { "--nnodes 2 --node-rank 1 --master-addr h --master-port 9", "static", "", "h", 9, 2, 2, 1, PARTY_HOST_AUTO },
        { "--nnodes 2 --node-rank 1 --rdzv-endpoint h:9", "static", "", "h", 9, 2, 2, 1, PARTY_HOST_AUTO },
        { "--nnodes 2 --rdzv-backend c10d --node-rank 1 --rdzv-endpoint h", "c10d", "", "h", 29400, 2, 2, 1, PARTY_HOST_AUTO },
        { "--nnodes 2 --rdzv-backend c10d --master-addr h", "c10d", "", "h", 29400, 2, 2, -1, PARTY_HOST_AUTO },
        { "--nnodes 2 --rdzv-backend static --master-addr h --rdzv-conf is_host=1", "static", "", "h", 29500, 2, 2, -1,
          PARTY_HOST_YES },
        { "--nnodes 2 --rdzv-endpoint h --rdzv-conf is_host=no", "c10d", "", "h", 29400, 2, 2, -1, PARTY_HOST_NO },
        { "--nnodes 2 --rdzv-backend etcd-v2 --rdzv-endpoint h,g:1 --rdzv-id x", "etcd-v2", "x", "etcd at h,g:1", 0, 2, 2, -1,
          PARTY_HOST_ELECTED },
        { "--nnodes 2 --rdzv-endpoint file:///a/b", "c10d", "", "/a/b", 0, 2, 2, -1, PARTY_HOST_ELECTED },
        { "--nnodes 2 --rdzv-endpoint /a/b --rdzv-conf store_type=file", "c10d", "", "/a/b", 0, 2, 2, -1, PARTY_HOST_ELECTED },
    };
    struct planned alone;
    size_t         i;

    for (i = 0; i < CC_COUNT(cases); i++) {
        struct planned t;

        plan(&t, cases[i].line);
        cr_expect_eq(t.r, 0, "%s: %s", cases[i].line, t.err.msg);
        cr_expect_str_eq(t.p.backend, cases[i].backend, "%s: %s", cases[i].line, t.p.backend);
        cr_expect_str_eq(t.p.run_id, cases[i].run_id, "%s: %s", cases[i].line, t.p.run_id);
        cr_expect_str_eq(t.p.bind_host, cases[i].host, "%s: %s", cases[i].line, t.p.bind_host);
        cr_expect_eq(t.p.port, cases[i].port, "%s: %u", cases[i].line, t.p.port);
        cr_expect(t.p.min_nodes == cases[i].min && t.p.max_nodes == cases[i].max, "%s", cases[i].line);
        cr_expect_eq(t.p.node_rank, cases[i].rank, "%s: %d", cases[i].line, t.p.node_rank);
        cr_expect_eq(t.p.hosting, cases[i].hosting, "%s: %d", cases[i].line, (int) t.p.hosting);
    }
    plan(&alone, "");
    cr_expect_eq(alone.p.hosting, PARTY_ALONE);
}

Test(plan, etcd_has_two_names_for_its_certificates)
{
    struct planned t;

    plan(&t, "--nnodes 2 --rdzv-backend etcd --rdzv-endpoint h --rdzv-conf "
             "protocol=https,cacert=/ca,ssl_cert=/c,key=/k,etcd_prefix=/p,user=u,password=s");
    cr_assert_eq(t.r, 0, "%s", t.err.msg);
    cr_expect_str_eq(t.p.directory.endpoints, "h");
    cr_expect_str_eq(t.p.directory.protocol, "https");
    cr_expect_str_eq(t.p.directory.ca_file, "/ca");
    cr_expect_str_eq(t.p.directory.cert_file, "/c");
    cr_expect_str_eq(t.p.directory.key_file, "/k");
    cr_expect_str_eq(t.p.directory.prefix, "/p");
    cr_expect_str_eq(t.p.directory.user, "u");
    cr_expect_str_eq(t.p.directory.password, "s");
}

Test(plan, the_timings_of_the_rendezvous_follow_from_rdzv_conf)
{
    struct planned t;

    plan(&t, "--nnodes 2 --rdzv-endpoint h");
    cr_assert(t.p.timings.dead_after == 3000 && t.p.timings.heartbeat == 750 && t.p.timings.lost_after == 6000);
    cr_assert(t.p.timings.join == 600000 && t.p.timings.replace == 600000 && t.p.timings.last_call == 30000);
    plan(&t, "--nnodes 2 --rdzv-endpoint h --rdzv-conf "
             "keep_alive_interval=5,keep_alive_max_attempt=4,join_timeout=7,last_call_timeout=1");
    cr_assert(t.p.timings.dead_after == 20000 && t.p.timings.heartbeat == 4000 && t.p.timings.lost_after == 40000);
    cr_assert(t.p.timings.join == 7000 && t.p.timings.replace == 7000 && t.p.timings.last_call == 1000);
    plan(&t, "--nnodes 2 --master-addr h");
    cr_assert(t.p.timings.join == 900000 && t.p.timings.replace == 0, "nobody replaces a node of a fixed set");
    plan(&t, "--nnodes 2 --master-addr h --rdzv-conf timeout=5");
    cr_assert_eq(t.p.timings.join, 5000);
}

Test(plan, what_is_resolved_in_silence_elsewhere_is_a_warning)
{
    static const struct {
        const char *line, *message; /* NULL: none */
    } cases[] = {
        { "", NULL },
        { "--rdzv-id x", NULL },
        { "--master-addr 10.0.0.1 --master-port 1", NULL },
        { "--standalone --rdzv-backend c10d --rdzv-endpoint localhost:0", NULL },
        { "--standalone --rdzv-endpoint h:1", "--standalone: --rdzv-endpoint is ignored" },
        { "--standalone --rdzv-backend foo --rdzv-id x --master-addr h --master-port 1",
          "--standalone: --rdzv-backend, --rdzv-id, --master-addr, --master-port are ignored" },
        { "--master-addr 10.0.0.1",
          "master_addr is only used for static rdzv_backend and when rdzv_endpoint is not specified." },
        { "--node-rank 1",
          "node_rank is only used for static rdzv_backend. It will be ignored for rdzv_backend=c10d." },
        { "--rdzv-id=", "config has no run_id, generated a random run_id: RANDOM" },
        { "--nnodes 1:2 --standalone", "--standalone: --nnodes 1:2 is one node, which waits for no other" },
        { "--standalone --spares 2", "--standalone: --spares is ignored" },
        { "--nnodes 1:2 --master-addr h", "--nnodes 1:2: the static rendezvous waits for all 2 nodes" },
        { "--nnodes 2 --rdzv-backend c10d --master-addr h --node-rank 1", NULL },
        { "--rdzv-backend etcd-v2 --rdzv-endpoint h:1",
          "--rdzv-backend etcd-v2: one node needs no etcd, and ccrun asks none" },
        { "--rdzv-backend c10d --rdzv-endpoint /tmp/x --rdzv-conf store_type=file",
          "--rdzv-conf store_type=file: one node needs no file, and ccrun makes none" },
        { "--rdzv-conf is_host=no", "--rdzv-conf is_host=no: the only node hosts all the same" },
        { "--rdzv-conf join_timout=5",
          "--rdzv-conf: unknown key 'join_timout' is ignored; did you mean join_timeout?" },
        { "--signals-to-handle SIGTERM,SIGFOOBAR", "Failed to register signal handler for SIGFOOBAR" },
        { "-qv", "--quiet and --verbose: --quiet wins" },
    };
    size_t i;

    for (i = 0; i < CC_COUNT(cases); i++) {
        struct planned t;

        plan(&t, cases[i].line);
        cr_expect_eq(t.r, 0, "%s: %s", cases[i].line, t.err.msg);
        cr_expect_eq(t.o.warnings.n, cases[i].message ? 1 : 0, "%s: %s", cases[i].line, t.o.warnings.text[0]);
        if (cases[i].message)
            cr_expect_str_eq(t.o.warnings.text[0], cases[i].message, "%s: %s", cases[i].line,
                             t.o.warnings.text[0]);
    }
}

Test(plan, the_rest_is_carried_over)
{
    struct planned t;

    plan(&t, "--nnodes 1:3 --rdzv-endpoint h --max-restarts 3 --shutdown-timeout 7 --stdin all -vv "
             "--event-log-handler console "
             "--signals-to-handle SIGUSR1 --rdzv-conf 'last_call_timeout=1,timeout=5'");
    cr_assert_eq(t.r, 0, "%s", t.err.msg);
    cr_assert(t.p.min_nodes == 1 && t.p.max_nodes == 3);
    cr_assert_eq(t.p.max_restarts, 3);
    cr_assert_eq(t.p.shutdown_timeout, 7000);
    cr_assert_eq(t.p.stdin_rank, PLAN_STDIN_ALL);
    cr_assert_eq(t.p.verbosity, 2);
    cr_assert(t.p.is_events_console);
    cr_assert(t.p.stop_signals[0] == SIGUSR1 && t.p.stop_signals[1] == 0);
    cr_assert_str_eq(rdzvconf_get(&t.p.conf, "last_call_timeout"), "1");
    plan(&t, "-q --stdin none --shutdown-timeout 0");
    cr_assert(t.r == 0 && t.p.stdin_rank == PLAN_STDIN_NONE && t.p.shutdown_timeout == 0 &&
              t.p.verbosity == -1);
    plan(&t, "");
    cr_assert(t.r == 0 && t.p.stdin_rank == 0 && t.p.shutdown_timeout == 30000 && t.p.verbosity == 0 &&
              !t.p.is_events_console);
    plan(&t, "--run-path --no-python -m");
    cr_assert_eq(t.r, 0, "--run-path beats both");
}

Test(plan, knows_what_to_do_about_failures)
{
    struct planned t;

    plan(&t, "--max-restarts 3/1h --max-rejoins 5 --restart-backoff 1:60 --no-restart-codes 2,SIGILL --finish-timeout 1.5 "
             "--preempt-signal usr1 --preempt-deadline 90 --preempt-exit-code 75 --iface eth0 --subnet 10.0.0.0/8");
    cr_assert_eq(t.r, -EINVAL, "a signal's name is in capital letters");
    plan(&t, "--max-restarts 3/1h --max-rejoins 5 --restart-backoff 1:60 --no-restart-codes 2,SIGILL --finish-timeout 1.5 "
             "--preempt-signal USR1 --preempt-deadline 90 --preempt-exit-code 75 --iface eth0 --subnet fd00::/8");
    cr_assert_eq(t.r, 0, "%s", t.err.msg);
    cr_assert(t.p.max_restarts == 3 && t.p.restart_window == 3600000 && t.p.max_rejoins == 5);
    cr_assert(t.p.backoff_min == 1000 && t.p.backoff_max == 60000);
    cr_assert(t.p.no_restart_codes[2] && t.p.no_restart_codes[128 + SIGILL] && !t.p.no_restart_codes[1]);
    cr_assert(t.p.finish_timeout == 1500 && t.p.preempt_signal == SIGUSR1);
    plan(&t, "--finish-timeout 0");
    cr_assert_eq(t.p.finish_timeout, 1, "at once is not never");
    plan(&t, "");
    cr_assert(t.p.max_rejoins == UINT_MAX && t.p.restart_window == 0 && t.p.backoff_max == 0 &&
              t.p.finish_timeout == 0 && t.p.preempt_signal == 0 && !t.p.no_restart_codes[1]);
}

Test(plan, streams_are_spread_over_the_workers)
{
    struct planned      t;
    struct plan_streams s;

    plan(&t, "-r 0:2 -t 0:1,1:1 --local-ranks-filter 1");
    cr_assert_eq(plan_streams_init(&s, &t.o, 3, &t.err), 0);
    cr_assert(s.redirects[0] == 2 && s.redirects[1] == 0 && s.redirects[2] == 0);
    cr_assert(s.tee[0] == 1 && s.tee[1] == 1 && s.tee[2] == 0);
    cr_assert(!s.is_on_console[0] && s.is_on_console[1] && !s.is_on_console[2]);
    plan_streams_free(&s);
}

Test(plan, a_stream_of_a_worker_that_is_not_there_is_a_warning)
{
    static const struct {
        const char *line, *message; /* NULL: none */
    } cases[] = {
        { "-r 3 -t 2", NULL },
        { "-r 0:3,1:2 --local-ranks-filter 0,1", NULL },
        { "--local-ranks-filter 1,7", "--local-ranks-filter 7 is out of range: the local ranks of 2 workers are 0 to 1" },
        { "--local-ranks-filter -1", "--local-ranks-filter -1 is out of range: the local ranks of 2 workers are 0 to 1" },
        { "-r 0:1,5:1,6:1", "--redirects 5:1 is out of range: the local ranks of 2 workers are 0 to 1" },
        { "-t 99999999999999999999:3",
          "--tee 99999999999999999999:3 is out of range: the local ranks of 2 workers are 0 to 1" },
    };
    size_t i;

    for (i = 0; i < CC_COUNT(cases); i++) {
        struct planned t;

        plan(&t, cases[i].line);
        cr_assert_eq(t.r, 0, "%s", t.err.msg);
        plan_warn_local_ranks(&t.o, 2);
        cr_expect_eq(t.o.warnings.n, cases[i].message ? 1 : 0, "%s: %s", cases[i].line, t.o.warnings.text[0]);
        if (cases[i].message)
            cr_expect_str_eq(t.o.warnings.text[0], cases[i].message);
    }
}

Test(plan, stdin_must_go_to_a_worker_that_exists)
{
    struct planned t;

    plan(&t, "--stdin 2");
    cr_assert_eq(plan_check_nproc(&t.p, 3, &t.err), 0);
    cr_assert_eq(plan_check_nproc(&t.p, 2, &t.err), -EINVAL);
    cr_assert_str_eq(t.err.msg, "--stdin 2 is out of range: the local ranks of 2 workers are 0 to 1");
}
