#include "launcher/job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/secret.h"
#include "launcher/envfile.h"
#include "store/base/cleanup.h"
#include "store/base/macros.h"

enum { ENV_FILE_MAX = 16 << 20 };

/* All of a file that is not larger than `max`, and a byte of room after it.  It may be a pipe: --env-file <(env -0). */
static int read_file(const char *option, const char *path, size_t max, char **ret, size_t *ret_len, struct cc_err *err)
{
    CC_AUTO_FD int     fd = open(path, O_RDONLY | O_CLOEXEC);
    CC_AUTO_FREE char *bytes = NULL;
    size_t             n = 0, cap = 0;
    ssize_t            got = 1;

    while (fd >= 0 && got > 0 && n <= max) {
        if (n + 1 >= cap) {
            char *more = realloc(bytes, cap = cap ? 2 * cap : 4096);

            if (!more)
                return cc_fail(err, -ENOMEM, "%s: no memory for '%.200s'", option, path);
            bytes = more;
        }
        got = read(fd, bytes + n, cap - 1 - n);
        n += got > 0 ? (size_t) got : 0;
    }
    if (fd < 0 || got < 0)
        return cc_fail(err, -errno, "%s: '%.200s' cannot be read: %s", option, path, strerror(errno));
    if (n > max)
        return cc_fail(err, -EFBIG, "%s: '%.200s' has more than %zu bytes", option, path, max);
    *ret_len = n;
    *ret = CC_STEAL(bytes);
    return 0;
}

static int read_env_file(struct job *j, struct cc_err *err)
{
    const char *path = j->options->env_file;
    size_t      len;
    int         r = read_file("--env-file", path, ENV_FILE_MAX, &j->env_file, &len, err);

    return r < 0 ? r : envfile_parse(j->env_file, len, path, &j->env_file_list, err);
}

/* The libraries of the workers take the interface that the user chose, unless they were told another. */
static int add_iface(struct job *j, struct cc_err *err)
{
    static const char *const names[] = { "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME" };
    size_t                   i;
    int                      r = 0;

    for (i = 0; r == 0 && i < CC_COUNT(names); i++) {
        if (environment_get(&j->env, names[i]))
            continue;
        if (asprintf(&j->env_iface[i], "%s=%s", names[i], j->options->iface) < 0) {
            j->env_iface[i] = NULL;
            return cc_fail(err, -ENOMEM, "no memory for the environment");
        }
        r = environment_set(&j->env, j->env_iface[i], err);
    }
    return r;
}

/* What was named for the workers, the file first. */
static int set_given(struct job *j, struct cc_err *err)
{
    const struct options *o = j->options;
    size_t                i;
    int                   r = 0;

    for (i = 0; r == 0 && j->env_file_list && j->env_file_list[i]; i++)
        r = environment_set(&j->env, j->env_file_list[i], err);
    for (i = 0; r == 0 && o->add_env && o->add_env[i]; i++)
        r = environment_set(&j->env, o->add_env[i], err);
    return r;
}

/* What an MPI library would believe of the launcher that started us must not reach the workers that we serve. */
int job_clean_mpi(struct job *j, struct cc_err *err)
{
    int r = environment_clean(&j->env, "mpi", err);

    return r < 0 ? r : set_given(j, err);
}

/* A later NAME=VALUE replaces an earlier one. */
int job_make_env(struct job *j, char *const *env, struct cc_err *err)
{
    const struct options *o = j->options;
    size_t                i;
    int                   r = environment_init(&j->env, env, err);

    for (i = 0; r == 0 && o->clean_env && o->clean_env[i]; i++)
        r = environment_clean(&j->env, o->clean_env[i], err);
    if (r == 0 && o->env_file)
        r = read_env_file(j, err);
    if (r == 0)
        r = set_given(j, err);
    if (r == 0 && o->iface)
        r = add_iface(j, err);
    return r;
}

int job_read_token(struct job *j, struct cc_err *err)
{
    const char *path = j->options->job_token_file;
    char       *bytes = NULL;
    struct stat st;
    size_t      n = 0;
    int         r;

    if (!path)
        return 0;
    r = read_file("--job-token-file", path, SECRET_MAX, &bytes, &n, err);
    if (r < 0)
        return r;
    while (n > 0 && (bytes[n - 1] == '\n' || bytes[n - 1] == '\r')) /* an editor's */
        n--;
    j->token = (uint8_t *) bytes;
    j->n_token = n;
    if (n == 0)
        return cc_fail(err, -EINVAL, "--job-token-file: '%.200s' is empty, and an empty secret is none", path);
    if (stat(path, &st) == 0 && (st.st_mode & S_IROTH))
        warnings_add(&j->options->warnings, "--job-token-file: everybody on this machine can read '%.200s' (chmod 600)", path);
    return 0;
}

void job_clear_env(struct job *j)
{
    size_t i;

    environment_free(&j->env);
    free(j->env_file);
    free(j->env_file_list);
    for (i = 0; i < CC_COUNT(j->env_iface); i++)
        free(j->env_iface[i]);
    if (j->token)
        explicit_bzero(j->token, j->n_token);
    free(j->token);
}
