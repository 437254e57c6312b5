#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/elf.h"

struct image {
    uint8_t *p;
    size_t   n;
};

static ssize_t read_image(void *ctx, uint64_t offset, void *buf, size_t n)
{
    const struct image *i = ctx;
    size_t              left = offset < i->n ? i->n - (size_t) offset : 0;

    n = n < left ? n : left;
    memcpy(buf, i->p + (n ? offset : 0), n);
    return (ssize_t) n;
}

static bool needs(const struct elf_links *l, const char *name)
{
    size_t i;

    for (i = 0; i < l->n_needed && strncmp(l->needed[i], name, strlen(name)) != 0; i++)
        ;
    return i < l->n_needed;
}

static void load(struct image *i, const char *path)
{
    struct stat st;
    int         fd = open(path, O_RDONLY | O_CLOEXEC);

    cr_assert_eq(fstat(fd, &st), 0);
    i->n = (size_t) st.st_size;
    i->p = malloc(i->n);
    cr_assert_eq(read(fd, i->p, i->n), st.st_size);
    (void) close(fd);
}

Test(elf, reads_what_a_program_links)
{
    struct elf_links l;

    cr_assert_eq(elf_read_file("/proc/self/exe", &l), 0);
    cr_assert(needs(&l, "libc.so"));
    cr_assert(needs(&l, "libcriterion.so"));
    cr_assert_null(l.soname);
    elf_clear(&l);
}

Test(elf, what_is_no_such_file_is_an_error)
{
    struct elf_links l;

    cr_assert_eq(elf_read_file("/dev/null", &l), -ENOEXEC);
    cr_assert_eq(elf_read_file("/etc/passwd", &l), -ENOEXEC);
    cr_assert_eq(elf_read_file("/nonexistent/x", &l), -ENOENT);
    cr_assert_neq(elf_read_file("/", &l), 0);
    elf_clear(&l);
}

/* Whatever is cut off or overwritten in the head and the lists, nothing is read that is not there. */
Test(elf, survives_a_broken_file)
{
    struct image     i, cut;
    struct elf_links l;
    unsigned         seed = 1;

    load(&i, "/bin/true");
    for (size_t n = 0; n < i.n; n += 1 + n / 64) {
        cut = (struct image) { malloc(n + 1), n };
        memcpy(cut.p, i.p, n);
        (void) elf_read(read_image, &cut, &l);
        elf_clear(&l);
        free(cut.p);
    }
    for (int k = 0; k < 20000; k++) {
        size_t  at = (size_t) rand_r(&seed) % (k % 2 ? 1024 : i.n);
        uint8_t was = i.p[at];

        i.p[at] = (uint8_t) rand_r(&seed);
        (void) elf_read(read_image, &i, &l);
        elf_clear(&l);
        i.p[at] = was;
    }
    free(i.p);
}
