/* store_main.c - ccrun-store: PyTorch's TCPStore as a program of its own. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include "launcher/size.h"
#include "launcher/stdstreams.h"
#include "store/server.h"

enum { EXIT_USAGE = 2, DEFAULT_PORT = 29500 };
enum opt { OPT_HOST = 256, OPT_PORT, OPT_MAX_MEMORY, OPT_READY_FD, OPT_STOP_FD, OPT_HELP, OPT_VERSION };

static const struct option options[] = {
    { "host", required_argument, NULL, OPT_HOST },
    { "port", required_argument, NULL, OPT_PORT },
    { "max-memory", required_argument, NULL, OPT_MAX_MEMORY },
    { "max_memory", required_argument, NULL, OPT_MAX_MEMORY },
    { "ready-fd", required_argument, NULL, OPT_READY_FD },
    { "ready_fd", required_argument, NULL, OPT_READY_FD },
    { "stop-fd", required_argument, NULL, OPT_STOP_FD },
    { "stop_fd", required_argument, NULL, OPT_STOP_FD },
    { "help", no_argument, NULL, OPT_HELP },
    { "version", no_argument, NULL, OPT_VERSION },
    { NULL, 0, NULL, 0 },
};

static const char help_text[] =
    "usage: ccrun-store [--host ADDRESS] [--port PORT] [--max-memory SIZE] [--ready-fd FD]\n"
    "\n"
    "Serves PyTorch's TCPStore protocol (torch 1.13 to 2.14) until SIGTERM or SIGINT.\n"
    "\n"
    "  --host ADDRESS      numeric address to listen on (127.0.0.1)\n"
    "  --port PORT         0: any free port (29500)\n"
    "  --max-memory SIZE   of keys, values and unread answers, such as 512M (1G)\n"
    "  --ready-fd FD       write 'listening on HOST:PORT' to this descriptor too, then close it\n"
    "  --stop-fd FD        end when this descriptor can be read or is closed at its other end: a pipe or a "
    "pidfd\n"
    "  --help, --version\n";

struct settings {
    struct store_server_cfg store;
    int                     ready_fd, stop_fd; /* or -1 */
    bool                    is_help, is_version;
};

struct app {
    uv_loop_t            loop;
    struct store_server *server;
    uv_signal_t          on_term, on_int;
    uv_poll_t            stop;
    bool                 is_stopping;
};

static int usage(const char *option, const char *value, const char *wants)
{
    (void) fprintf(stderr, "ccrun-store: --%s: '%s' is not %s\n", option, value, wants);
    return EXIT_USAGE;
}

static bool read_number(const char *text, uintmax_t max, uintmax_t *ret)
{
    char *end;

    errno = 0;
    *ret = strtoumax(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && *ret <= max;
}

static int read_descriptor(const char *option, const char *value, int *ret)
{
    uintmax_t n;

    if (!read_number(value, INT32_MAX, &n) || fcntl((int) n, F_GETFD) < 0)
        return usage(option, value, "the number of an open descriptor");
    *ret = (int) n;
    return 0;
}

static int read_option(struct settings *s, enum opt o, const char *value)
{
    uintmax_t n;

    switch (o) {
    case OPT_HOST: s->store.host = value; return 0;
    case OPT_PORT:
        if (!read_number(value, UINT16_MAX, &n))
            return usage("port", value, "a port from 0 to 65535");
        s->store.port = (uint16_t) n;
        return 0;
    case OPT_MAX_MEMORY:
        if (size_parse(value, &s->store.max_memory) < 0 || s->store.max_memory == 0)
            return usage("max-memory", value, "a size such as 512M or 1G");
        return 0;
    case OPT_READY_FD: return read_descriptor("ready-fd", value, &s->ready_fd);
    case OPT_STOP_FD: return read_descriptor("stop-fd", value, &s->stop_fd);
    case OPT_HELP: s->is_help = true; return 0;
    case OPT_VERSION: s->is_version = true; return 0;
    default: return EXIT_USAGE;
    }
}

/* 0, or an exit status after a sentence on stderr. */
static int read_options(struct settings *s, int argc, char **argv)
{
    int c, r;

    opterr = 0;
    while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        if (c == '?' || c == ':') {
            (void) fprintf(stderr, "ccrun-store: %s: %s; see ccrun-store --help\n", argv[optind - 1],
                           c == ':' ? "a value is missing" : "no such option");
            return EXIT_USAGE;
        }
        r = read_option(s, (enum opt) c, optarg);
        if (r != 0)
            return r;
    }
    if (optind == argc)
        return 0;
    (void) fprintf(stderr,
                   "ccrun-store: '%s': there are no arguments beside the options; see ccrun-store --help\n",
                   argv[optind]);
    return EXIT_USAGE;
}

static void on_notice(void *ctx, const char *sentence)
{
    (void) ctx;
    (void) fprintf(stderr, "ccrun-store: %s\n", sentence);
}

static void stop(struct app *a)
{
    if (a->is_stopping)
        return;
    a->is_stopping = true;
    store_server_close(a->server, NULL, NULL);
    uv_close((uv_handle_t *) &a->on_term, NULL);
    uv_close((uv_handle_t *) &a->on_int, NULL);
    if (a->stop.data)
        uv_close((uv_handle_t *) &a->stop, NULL);
}

static void on_signal(uv_signal_t *h, int signum)
{
    (void) signum;
    stop(h->data);
}

static void on_stop_fd(uv_poll_t *h, int status, int events)
{
    (void) status, (void) events;
    stop(h->data);
}

static int watch_stop_fd(struct app *a, int fd)
{
    int r = fd < 0 ? 0 : uv_poll_init(&a->loop, &a->stop, fd);

    if (fd >= 0 && r == 0) {
        a->stop.data = a;
        r = uv_poll_start(&a->stop, UV_READABLE | UV_DISCONNECT, on_stop_fd);
    }
    if (r < 0)
        (void) fprintf(stderr, "ccrun-store: --stop-fd %d: %s\n", fd, uv_strerror(r));
    return r < 0 ? EXIT_USAGE : 0;
}

/* Each client is a descriptor: take as many as we may. */
static void raise_file_limit(void)
{
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) < 0)
        return;
    r.rlim_cur = r.rlim_max;
    (void) setrlimit(RLIMIT_NOFILE, &r);
}

static int say_ready(const struct settings *s, uint16_t port)
{
    const char *host = s->store.host ? s->store.host : "127.0.0.1";
    bool        is_v6 = strchr(host, ':') != NULL;
    char        line[256];
    int n = snprintf(line, sizeof line, "listening on %s%s%s:%u\n", is_v6 ? "[" : "", host, is_v6 ? "]" : "",
                     port);

    (void) fputs(line, stdout);
    (void) fflush(stdout);
    if (s->ready_fd < 0)
        return 0;
    if (write(s->ready_fd, line, (size_t) n) != n) {
        (void) fprintf(stderr, "ccrun-store: --ready-fd %d: %s\n", s->ready_fd, strerror(errno));
        return EXIT_USAGE;
    }
    (void) close(s->ready_fd);
    return 0;
}

static int serve(const struct settings *s)
{
    struct app    a = { 0 };
    struct cc_err err;
    int           r;

    raise_file_limit();
    if (uv_loop_init(&a.loop) < 0) {
        (void) fprintf(stderr, "ccrun-store: no event loop: %s\n", strerror(errno));
        return EXIT_FAILURE;
    }
    if (store_server_start(&a.server, &a.loop, &s->store, &err) < 0) {
        (void) fprintf(stderr, "ccrun-store: %s\n", err.msg);
        (void) uv_loop_close(&a.loop);
        return EXIT_USAGE;
    }
    a.on_term.data = a.on_int.data = &a;
    (void) uv_signal_init(&a.loop, &a.on_term);
    (void) uv_signal_init(&a.loop, &a.on_int);
    (void) uv_signal_start(&a.on_term, on_signal, SIGTERM);
    (void) uv_signal_start(&a.on_int, on_signal, SIGINT);
    r = watch_stop_fd(&a, s->stop_fd);
    if (r == 0)
        r = say_ready(s, store_server_port(a.server));
    if (r != 0)
        stop(&a);
    (void) uv_run(&a.loop, UV_RUN_DEFAULT);
    (void) uv_loop_close(&a.loop);
    return r;
}

int main(int argc, char **argv)
{
    struct settings s = { .store.port = DEFAULT_PORT, .store.log = on_notice, .ready_fd = -1, .stop_fd = -1 };
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    int              r = read_options(&s, argc, argv);

    if (r != 0)
        return r;
    if (stdstreams_open() < 0)
        return EXIT_FAILURE;
    if (s.is_help || s.is_version) {
        if (s.is_help)
            (void) fputs(help_text, stdout);
        else
            (void) printf("ccrun-store " CCRUN_VERSION ", libuv %s\n", uv_version_string());
        return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    (void) sigaction(SIGPIPE, &ignore, NULL);
    return serve(&s);
}
