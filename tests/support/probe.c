/* probe - a worker that prints, one `name=value` a line, the state it was started with. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void print_signal_sets(void)
{
    FILE *f = fopen("/proc/self/status", "re");
    char  line[256];

    while (f && fgets(line, sizeof line, f)) {
        char *value = strchr(line, '\t');

        if (!value || strncmp(line, "Sig", 3) != 0)
            continue;
        value[-1] = '\0'; /* the colon */
        if (strcmp(line, "SigBlk") == 0 || strcmp(line, "SigIgn") == 0)
            printf("%s=%s", line, value + 1);
    }
    if (f)
        (void) fclose(f);
}

static void print_fds(void)
{
    DIR           *dir = opendir("/proc/self/fd");
    struct dirent *e;

    printf("fds=");
    while (dir && (e = readdir(dir))) {
        int fd = (int) strtol(e->d_name, NULL, 10);

        if (e->d_name[0] != '.' && fd != dirfd(dir))
            printf("%d%s ", fd, fcntl(fd, F_GETFD) & FD_CLOEXEC ? "x" : "");
    }
    printf("\n");
    if (dir)
        (void) closedir(dir);
}

static void print_file(const char *name, const char *path)
{
    FILE *f = fopen(path, "re");
    char  line[256];

    while (f && fgets(line, sizeof line, f))
        printf("%s=%s", name, line);
    if (f)
        (void) fclose(f);
}

int main(int argc, char **argv)
{
    struct rlimit nofile;
    int           death = 0, i;
    mode_t        mask = umask(0);
    cpu_set_t     cpus;

    print_signal_sets();
    print_fds();
    (void) prctl(PR_GET_PDEATHSIG, &death);
    (void) getrlimit(RLIMIT_NOFILE, &nofile);
    (void) sched_getaffinity(0, sizeof cpus, &cpus);
    printf("pid=%d\nppid=%d\npdeathsig=%d\n", (int) getpid(), (int) getppid(), death);
    printf("own_pgrp=%d\nown_sid=%d\n", getpgrp() == getpid(), getsid(0) == getpid());
    printf("umask=%03o\nnofile=%llu\n", mask, (unsigned long long) nofile.rlim_cur);
    printf("ncpus=%d\nforeground=%d\n", CPU_COUNT(&cpus), tcgetpgrp(0) == getpgrp());
    print_file("oom_score_adj", "/proc/self/oom_score_adj");
    print_file("cgroup", "/proc/self/cgroup");
    for (i = 1; i < argc; i++)
        printf("arg=%s\n", argv[i]);
    fflush(stdout);
    return 0;
}
