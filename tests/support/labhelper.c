/* labhelper - the few things that tests/lab/netlab.sh cannot do with iproute2 and util-linux alone.
 *
 *     labhelper hold FILE [COMMAND...]   new network, UTS, mount, IPC and PID namespaces.  Writes the outer PID of
 *                                        their init to FILE, runs COMMAND in them once as a set-up, then reaps for
 *                                        ever.  Killing that PID is a power cut: every process of the host dies.
 *     labhelper exec PID COMMAND...      runs COMMAND in PID's namespaces.  Signals are passed on, the status comes
 *                                        back (128 + n for a signal), and COMMAND dies when we are killed.
 *     labhelper relay A B US LOSS        copies frames between two interfaces with a delay in microseconds and a
 *                                        loss per mille, both each way: not every kernel has netem.
 *     labhelper rawlink INTERFACE        no checksum and segmentation offload: before relay sees its frames
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CANNOT = 125, FRAME_MAX = 65536 + 64, QUEUE_MAX = 100000, BURST = 64 };

static _Noreturn void die(const char *what)
{
    (void) fprintf(stderr, "labhelper: %s: %s\n", what, strerror(errno));
    exit(CANNOT);
}

/* ---- hold */

static void mount_or_die(const char *type, const char *where, unsigned long flags, const char *data)
{
    if (mount(type, where, type, flags, data) != 0)
        die(where);
}

/* /proc, /dev/shm and a /sys that shows this host's interfaces, with the control groups put back under it. */
static void mount_own(void)
{
    char keep[] = "/tmp/.labhelper-XXXXXX";
    bool has_groups;

    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        die("private mounts");
    mount_or_die("proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    if (!mkdtemp(keep))
        die("mkdtemp");
    has_groups = mount("/sys/fs/cgroup", keep, NULL, MS_BIND | MS_REC, NULL) == 0;
    mount_or_die("sysfs", "/sys", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    if (has_groups && mount(keep, "/sys/fs/cgroup", NULL, MS_MOVE, NULL) != 0)
        die("/sys/fs/cgroup");
    (void) rmdir(keep);
    mount_or_die("tmpfs", "/dev/shm", MS_NOSUID | MS_NODEV, "mode=1777");
}

static bool set_up(char **command)
{
    pid_t pid;
    int   status;

    if (!*command)
        return true;
    pid = fork();
    if (pid == 0) {
        (void) execvp(command[0], command);
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* The host's process 1. */
static _Noreturn void be_init(int done, char **command)
{
    sigset_t all;
    int      null, signum;

    (void) setsid();
    mount_own();
    if (!set_up(command) || write(done, "1", 1) != 1)
        _exit(1);
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        (void) dup2(null, fd);
    for (int fd = STDERR_FILENO + 1; fd < 256; fd++)
        (void) close(fd);
    (void) sigfillset(&all);
    (void) sigprocmask(SIG_BLOCK, &all, NULL);
    for (;;) {
        (void) sigwait(&all, &signum);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
}

static int hold(const char *path, char **command)
{
    int   go[2];
    char  done;
    pid_t pid;
    FILE *f;

    if (unshare(CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID) != 0)
        die("unshare");
    if (pipe2(go, O_CLOEXEC) != 0)
        die("pipe");
    pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0)
        be_init(go[1], command);
    (void) close(go[1]);
    if (read(go[0], &done, 1) != 1) {
        (void) fprintf(stderr, "labhelper: set-up failed\n");
        (void) kill(pid, SIGKILL);
        return 1;
    }
    f = fopen(path, "we");
    if (!f || fprintf(f, "%d\n", (int) pid) < 0 || fclose(f) != 0) {
        (void) kill(pid, SIGKILL);
        die(path);
    }
    return 0;
}

/* ---- exec */

static volatile sig_atomic_t child;

static void pass_on(int signum)
{
    if (child > 0)
        (void) kill((pid_t) child, signum);
}

static void enter(const char *pid)
{
    static const char *const names[] = { "net", "uts", "ipc", "pid", "mnt" };
    int                      fds[sizeof names / sizeof *names];
    char                     path[64];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void) snprintf(path, sizeof path, "/proc/%s/ns/%s", pid, names[i]);
        fds[i] = open(path, O_RDONLY | O_CLOEXEC);
        if (fds[i] < 0)
            die(path);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (setns(fds[i], 0) != 0)
            die(names[i]);
}

static int run_in(const char *pid, char **command)
{
    static const int passed[] = { SIGHUP,  SIGINT,  SIGQUIT,  SIGTERM, SIGUSR1,
                                  SIGUSR2, SIGCONT, SIGWINCH, SIGALRM };
    struct sigaction act = { .sa_handler = pass_on };
    sigset_t         all, old;
    char             cwd[4096];
    int              status;

    if (!getcwd(cwd, sizeof cwd))
        (void) snprintf(cwd, sizeof cwd, "/");
    enter(pid);
    if (chdir(cwd) != 0 && chdir("/") != 0)
        die("chdir");
    (void) sigfillset(&all);
    (void) sigprocmask(SIG_BLOCK, &all, &old);
    child = fork();
    if (child < 0)
        die("fork");
    if (child == 0) {
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void) sigprocmask(SIG_SETMASK, &old, NULL);
        (void) execvp(command[0], command);
        (void) fprintf(stderr, "labhelper: %s: %s\n", command[0], strerror(errno));
        _exit(errno == ENOENT ? 127 : 126);
    }
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        (void) sigaction(passed[i], &act, NULL);
    (void) sigprocmask(SIG_SETMASK, &old, NULL);
    while (waitpid((pid_t) child, &status, 0) < 0)
        if (errno != EINTR)
            die("waitpid");
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- rawlink, relay */

static int rawlink(const char *name)
{
    static const unsigned commands[] = { ETHTOOL_STXCSUM, ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO };
    int                   s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        struct ethtool_value v = { .cmd = commands[i] };
        struct ifreq         r = { 0 };

        (void) snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
        r.ifr_data = (char *) &v;
        if (ioctl(s, SIOCETHTOOL, &r) != 0 && i == 0)
            die(name);
    }
    (void) close(s);
    return 0;
}

struct frame {
    struct frame *next;
    long long     due_us;
    int           out;
    size_t        size;
    unsigned char bytes[];
};

/* One queue for both ways: every frame has the same delay. */
struct relay {
    int           fds[2];
    long long     delay_us;
    long          loss;
    long          n;
    struct frame *first, **last;
};

static long long now_us(void)
{
    struct timespec t;

    (void) clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long) t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int packet_socket(const char *name)
{
    struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
    struct packet_mreq all = { .mr_type = PACKET_MR_PROMISC };
    int                s = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL));
    int                one = 1, size = 16 << 20;

    if (s < 0)
        die("packet socket");
    (void) setsockopt(s, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one);
    if (setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) != 0)
        (void) setsockopt(s, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    at.sll_ifindex = (int) if_nametoindex(name);
    if (at.sll_ifindex == 0 || bind(s, (struct sockaddr *) &at, sizeof at) != 0)
        die(name);
    all.mr_ifindex = at.sll_ifindex;
    (void) setsockopt(s, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all);
    return s;
}

static void take_in(struct relay *r, int from)
{
    static unsigned char bytes[FRAME_MAX];

    for (int k = 0; k < BURST; k++) {
        ssize_t       n = recv(r->fds[from], bytes, sizeof bytes, 0);
        struct frame *f;

        if (n <= 0)
            return;
        if ((r->loss > 0 && random() % 1000 < r->loss) || r->n >= QUEUE_MAX)
            continue;
        f = malloc(sizeof *f + (size_t) n);
        if (!f)
            continue;
        *f = (struct frame) { .due_us = now_us() + r->delay_us, .out = r->fds[!from], .size = (size_t) n };
        (void) memcpy(f->bytes, bytes, (size_t) n);
        *r->last = f;
        r->last = &f->next;
        r->n++;
    }
}

static void give_out(struct relay *r)
{
    long long now = now_us();

    while (r->first && r->first->due_us <= now) {
        struct frame *f = r->first;

        (void) send(f->out, f->bytes, f->size, 0); /* what does not fit is lost, as on a full wire */
        r->first = f->next;
        if (!r->first)
            r->last = &r->first;
        free(f);
        r->n--;
    }
}

static _Noreturn void relay(char **argv)
{
    struct relay r = { .fds = { packet_socket(argv[0]), packet_socket(argv[1]) },
                       .delay_us = strtoll(argv[2], NULL, 10),
                       .loss = strtol(argv[3], NULL, 10) };

    r.last = &r.first;
    srandom((unsigned) getpid());
    for (;;) {
        struct pollfd   p[2] = { { r.fds[0], POLLIN, 0 }, { r.fds[1], POLLIN, 0 } };
        long long       wait_us = r.first ? r.first->due_us - now_us() : -1;
        struct timespec t = { wait_us > 0 ? wait_us / 1000000 : 0,
                              wait_us > 0 ? (long) (wait_us % 1000000) * 1000 : 0 };

        if (ppoll(p, 2, r.first ? &t : NULL, NULL) < 0 && errno != EINTR)
            die("poll");
        take_in(&r, 0);
        take_in(&r, 1);
        give_out(&r);
    }
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";

    if (strcmp(verb, "hold") == 0 && argc >= 3)
        return hold(argv[2], argv + 3);
    if (strcmp(verb, "exec") == 0 && argc >= 4)
        return run_in(argv[2], argv + 3);
    if (strcmp(verb, "relay") == 0 && argc == 6)
        relay(argv + 2);
    if (strcmp(verb, "rawlink") == 0 && argc == 3)
        return rawlink(argv[2]);
    (void) fprintf(stderr, "usage: labhelper hold|exec|relay|rawlink ...\n");
    return 2;
}
