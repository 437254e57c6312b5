#include "launcher/check_options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/duration.h"
#include "launcher/size.h"

enum { MAX_ITERS = 100000, MAX_ROUNDS = 1000000, MAX_FD = 1 << 20 };
#define DEFAULT_SIZES "8:64M:8"

enum opt {
    OPT_BACKEND = 256,
    OPT_SIZES,
    OPT_OPS,
    OPT_PAIRS,
    OPT_PAIR_SIZE,
    OPT_PAIR_ROUNDS,
    OPT_SLOW,
    OPT_JSON,
    OPT_MIN_BUSBW,
    OPT_ITERS,
    OPT_WARMUP,
    OPT_TIMEOUT,
    OPT_MAX_SKEW,
    OPT_INTERFACE,
    OPT_PREFLIGHT,
    OPT_AGENT_FD,
    OPT_PASSED,
    OPT_NEEDED,
    OPT_HELP,
    OPT_VERSION
};

static const struct option options[] = {
    { "backend", required_argument, NULL, OPT_BACKEND },
    { "sizes", required_argument, NULL, OPT_SIZES },
    { "ops", required_argument, NULL, OPT_OPS },
    { "pairs", no_argument, NULL, OPT_PAIRS },
    { "pair-size", required_argument, NULL, OPT_PAIR_SIZE },
    { "pair-rounds", required_argument, NULL, OPT_PAIR_ROUNDS },
    { "slow", required_argument, NULL, OPT_SLOW },
    { "json", required_argument, NULL, OPT_JSON },
    { "min-busbw", required_argument, NULL, OPT_MIN_BUSBW },
    { "iters", required_argument, NULL, OPT_ITERS },
    { "warmup", required_argument, NULL, OPT_WARMUP },
    { "timeout", required_argument, NULL, OPT_TIMEOUT },
    { "max-skew", required_argument, NULL, OPT_MAX_SKEW },
    { "interface", required_argument, NULL, OPT_INTERFACE },
    { "preflight", no_argument, NULL, OPT_PREFLIGHT },
    { "agent-fd", required_argument, NULL, OPT_AGENT_FD },
    { "passed", required_argument, NULL, OPT_PASSED },
    { "needed", no_argument, NULL, OPT_NEEDED },
    { "help", no_argument, NULL, OPT_HELP },
    { "version", no_argument, NULL, OPT_VERSION },
    { NULL, 0, NULL, 0 },
};

const char check_options_help[] =
    "usage: ccrun [--nnodes N ...] --no-python ccrun-check [OPTION...]\n"
    "\n"
    "Measures the network between the workers of a job, checks what arrives, names the node that is slow\n"
    "or broken, and compares the nodes.\n"
    "\n"
    "  --backend NAME      nccl, gloo, mpi; auto: nccl when every rank has a GPU, else gloo (auto)\n"
    "  --sizes LIST        bytes of the messages: SIZE, MIN:MAX or MIN:MAX:FACTOR,... (" DEFAULT_SIZES ")\n"
    "  --ops LIST          all-reduce, all-gather, reduce-scatter, send-recv; or none (all of them)\n"
    "  --iters N           measured calls of each size, of which the median counts (20)\n"
    "  --warmup N          calls before them (3)\n"
    "  --min-busbw GB/S    fail when an operation has less bus bandwidth at its largest size\n"
    "  --pairs             let each node meet each other alone, and name who is slow\n"
    "  --pair-size SIZE    of the messages of a pair (4M)\n"
    "  --pair-rounds N     not all, but so many partners for each node\n"
    "  --slow RATIO        slow is less than this part of what is usual (0.5)\n"
    "  --max-skew SECONDS  warn when a node's clock differs by more (0.1)\n"
    "  --timeout SECONDS   for any one answer of any one rank (60)\n"
    "  --interface NAME    gloo: an interface or an address to be reached at\n"
    "  --json FILE         write everything to FILE as JSON; - is standard output, without the table\n"
    "  --help, --version\n"
    "\n"
    "Exit status: 0 well, 1 something is slow, broken or below a threshold, 2 usage.\n";

static int refuse(const char *option, const char *value, const char *wants, struct cc_err *err)
{
    return cc_fail(err, -EINVAL, "--%s: '%.80s' is not %s", option, value, wants);
}

static int read_number(const char *option, const char *value, unsigned min, unsigned max, unsigned *ret, struct cc_err *err)
{
    char         *end;
    unsigned long n;

    errno = 0;
    n = strtoul(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end || errno != 0 || n < min || n > max)
        return cc_fail(err, -EINVAL, "--%s: '%.80s' is not a number from %u to %u", option, value, min, max);
    *ret = (unsigned) n;
    return 0;
}

static int read_real(const char *option, const char *value, double max, double *ret, struct cc_err *err)
{
    char  *end;
    double x = strtod(value, &end);

    if (end == value || *end || !isfinite(x) || x <= 0 || x > max)
        return cc_fail(err, -EINVAL, "--%s: '%.80s' is not a number above 0 and up to %g", option, value, max);
    *ret = x;
    return 0;
}

static int read_time(const char *option, const char *value, uint64_t *ret_ms, struct cc_err *err)
{
    if (duration_parse(value, ret_ms) < 0 || *ret_ms == 0)
        return refuse(option, value, "a length of time such as 30 or 2m", err);
    return 0;
}

static int read_ops(struct check_options *o, const char *list, struct cc_err *err)
{
    bool is_wanted[CHECK_N_OPS] = { false };

    if (strcmp(list, "none") == 0) {
        memcpy(o->is_wanted, is_wanted, sizeof is_wanted);
        return 0;
    }
    for (const char *at = list;; at++) {
        size_t n = strcspn(at, ",");
        int    op = check_op_find(at, n);

        if (op < 0)
            return cc_fail(err, -EINVAL,
                           "--ops: '%.*s' is none of all-reduce, all-gather, reduce-scatter, send-recv; none of them is: none",
                           n < 40 ? (int) n : 40, at);
        is_wanted[op] = true;
        at += n;
        if (!*at)
            break;
    }
    memcpy(o->is_wanted, is_wanted, sizeof is_wanted);
    return 0;
}

static int read_pair_size(struct check_options *o, const char *value, struct cc_err *err)
{
    uint64_t n;

    if (size_parse(value, &n) < 0 || n < CHECK_SIZE_MIN || n > CHECK_SIZE_LIMIT)
        return refuse("pair-size", value, "a size such as 1M, from 4 to 1T", err);
    o->pair_bytes = n - n % 4;
    return 0;
}

static int read_sizes(struct check_options *o, const char *value, struct cc_err *err)
{
    return check_sizes_parse(value, &o->sizes, err) < 0 ? cc_wrap(err, "--sizes") : 0;
}

/* Seconds, not minutes: enough to see that something is wrong. */
static void be_short(struct check_options *o)
{
    o->is_preflight = true;
    memset(o->is_wanted, 0, sizeof o->is_wanted);
    o->is_wanted[CHECK_ALL_REDUCE] = true;
    o->sizes = (struct check_sizes) { .bytes = { 64 << 10, 4 << 20 }, .n = 2 };
    o->has_pairs = true;
    o->pair_bytes = 1 << 20;
    o->pair_rounds = 4;
    o->iters = 5;
    o->warmup = 1;
}

static int read_option(struct check_options *o, enum opt opt, const char *value, struct cc_err *err)
{
    unsigned fd = 0;
    int      r;

    switch (opt) {
    case OPT_BACKEND: o->backend = value; return 0;
    case OPT_SIZES: return read_sizes(o, value, err);
    case OPT_OPS: return read_ops(o, value, err);
    case OPT_PAIRS: o->has_pairs = true; return 0;
    case OPT_PAIR_SIZE: return read_pair_size(o, value, err);
    case OPT_PAIR_ROUNDS: return read_number("pair-rounds", value, 1, MAX_ROUNDS, &o->pair_rounds, err);
    case OPT_SLOW: return read_real("slow", value, 1, &o->slow, err);
    case OPT_JSON: o->json = value; return 0;
    case OPT_MIN_BUSBW: return read_real("min-busbw", value, 1e6, &o->min_busbw, err);
    case OPT_ITERS: return read_number("iters", value, 1, MAX_ITERS, &o->iters, err);
    case OPT_WARMUP: return read_number("warmup", value, 0, MAX_ITERS, &o->warmup, err);
    case OPT_TIMEOUT: return read_time("timeout", value, &o->timeout_ms, err);
    case OPT_MAX_SKEW: return read_time("max-skew", value, &o->max_skew_ms, err);
    case OPT_INTERFACE: o->interface = value; return 0;
    case OPT_PREFLIGHT: be_short(o); return 0;
    case OPT_AGENT_FD:
        r = read_number("agent-fd", value, 0, MAX_FD, &fd, err);
        o->agent_fd = (int) fd;
        return r;
    case OPT_PASSED: o->passed = value; return 0;
    case OPT_NEEDED: o->is_needed = true; return 0;
    case OPT_HELP: o->is_help = true; return 0;
    case OPT_VERSION: o->is_version = true; return 0;
    default: return -EINVAL;
    }
}

/* The '+' stops getopt at the first word that is no option, and leaves argv as it is. */
static int read_all(struct check_options *o, int argc, char **argv, struct cc_err *err)
{
    int c, r = 0;

    opterr = 0;
    optind = 0; /* from the beginning, whoever used it before */
    while (r == 0 && (c = getopt_long(argc, argv, "+:", options, NULL)) != -1) {
        if (c == '?' || c == ':')
            return cc_fail(err, -EINVAL, "%.80s: %s; see ccrun-check --help", argv[optind - 1],
                           c == ':' ? "a value is missing" : "no such option");
        r = read_option(o, (enum opt) c, optarg, err);
    }
    if (r == 0 && optind < argc)
        return cc_fail(err, -EINVAL, "'%.80s': there are no arguments beside the options; see ccrun-check --help",
                       argv[optind]);
    return r;
}

int check_options_parse(struct check_options *ret, int argc, char **argv, struct cc_err *err)
{
    struct check_options o = {
        .backend = "auto",
        .is_wanted = { true, true, true, true },
        .pair_bytes = 4 << 20,
        .slow = 0.5,
        .iters = 20,
        .warmup = 3,
        .timeout_ms = 60000,
        .max_skew_ms = 100,
        .agent_fd = -1,
        .passed = "",
    };
    int r = read_sizes(&o, DEFAULT_SIZES, err);

    if (r == 0)
        r = read_all(&o, argc, argv, err);
    if (r == 0)
        *ret = o;
    return r;
}
