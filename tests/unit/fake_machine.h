/* fake_machine.h - a tree of files in a temporary directory that the facts modules take for the machine. */
#ifndef TESTS_FAKE_MACHINE_H
#define TESTS_FAKE_MACHINE_H

#include "launcher/machine.h"

struct fake_machine {
    struct machine m;
    char           root[64];
    char          *env[32];
    unsigned       n_env;
    cpu_set_t      cpus;
};

/* An empty machine with CPUs 0..n_cpus-1 and no environment.  The m in it is good for as long as it does not
 * move. */
void fake_init(struct fake_machine *f, int n_cpus);
void fake_file(struct fake_machine *f, const char *path, const char *text); /* parents are made */
void fake_dir(struct fake_machine *f, const char *path);
void fake_link(struct fake_machine *f, const char *path, const char *target);
void fake_mode(struct fake_machine *f, const char *path, unsigned mode);
void fake_env(struct fake_machine *f, const char *name, const char *value); /* value may hold "@": the root */
void fake_path(struct fake_machine *f, const char *path, char buf[PATH_MAX]);
void fake_free(struct fake_machine *f);

#endif
