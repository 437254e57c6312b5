/* onpty.c - talk to a program on a terminal: onpty STEP... -- COMMAND [ARG...]
 *
 *   wait=TEXT    read until TEXT has come since the last step that found something
 *   send=TEXT    type it; \n, \r, \t, \\ and \xNN are escapes (\x03 is ^C, \x1a is ^Z)
 *   pause=MS     a person takes a moment between two key presses
 *
 * The command leads a session of its own whose terminal it is.  All that it prints goes to stdout.  Ends with the command's
 * status (128 + signal) once the terminal is closed; with 99 when a text does not come in 10 s.
 */
#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_MS = 10000, NOT_SEEN = 99 };

struct talk {
    int    fd;
    char   text[65536]; /* what has come and was not waited for yet */
    size_t n;
};

/* False: the other side has closed, or nothing came in time. */
static bool hear(struct talk *t, int ms)
{
    struct pollfd p = { .fd = t->fd, .events = POLLIN };
    ssize_t       n;

    if (poll(&p, 1, ms) <= 0)
        return false;
    if (t->n == sizeof t->text - 1)
        t->n = 0;
    n = read(t->fd, t->text + t->n, sizeof t->text - 1 - t->n);
    if (n <= 0)
        return false; /* EIO: the last process has closed the terminal */
    (void) fwrite(t->text + t->n, 1, (size_t) n, stdout);
    (void) fflush(stdout);
    t->n += (size_t) n;
    t->text[t->n] = '\0';
    return true;
}

static bool wait_for(struct talk *t, const char *what)
{
    for (;;) {
        char *at = memmem(t->text, t->n, what, strlen(what));

        if (at) {
            size_t used = (size_t) (at - t->text) + strlen(what);

            memmove(t->text, t->text + used, t->n - used + 1);
            t->n -= used;
            return true;
        }
        if (!hear(t, LIMIT_MS)) {
            (void) fprintf(stderr, "onpty: '%s' has not come\n", what);
            return false;
        }
    }
}

static char unescape(const char **s)
{
    char hex[3] = "";

    if (**s != '\\')
        return *(*s)++;
    *s += 2;
    switch ((*s)[-1]) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'x':
        memcpy(hex, *s, strnlen(*s, 2));
        *s += strlen(hex);
        return (char) strtol(hex, NULL, 16);
    default: return (*s)[-1];
    }
}

static void send_text(struct talk *t, const char *s)
{
    while (*s) {
        char c = unescape(&s);

        (void) !write(t->fd, &c, 1);
    }
}

int main(int argc, char **argv)
{
    struct talk t = { 0 };
    pid_t       pid;
    int         i, status, end;

    for (end = 1; end < argc && strcmp(argv[end], "--") != 0; end++)
        ;
    if (end + 1 >= argc)
        return 2;
    pid = forkpty(&t.fd, NULL, NULL, NULL);
    if (pid < 0)
        return 1;
    if (pid == 0) {
        (void) execvp(argv[end + 1], argv + end + 1);
        _exit(127);
    }
    for (i = 1; i < end; i++) {
        if (strncmp(argv[i], "send=", 5) == 0)
            send_text(&t, argv[i] + 5);
        else if (strncmp(argv[i], "pause=", 6) == 0)
            (void) poll(NULL, 0, (int) strtol(argv[i] + 6, NULL, 10));
        else if (strncmp(argv[i], "wait=", 5) != 0 || !wait_for(&t, argv[i] + 5))
            return NOT_SEEN; /* our end closes: the command gets SIGHUP */
    }
    while (hear(&t, LIMIT_MS))
        ;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
