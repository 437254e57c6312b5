#include "launcher/elf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/base/cleanup.h"

enum { SEGMENTS_MAX = 128, ENTRIES_MAX = 4096 };

#if __SIZEOF_POINTER__ == 8
#define OWN_CLASS ELFCLASS64
#else
#define OWN_CLASS ELFCLASS32
#endif
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define OWN_ORDER ELFDATA2LSB
#else
#define OWN_ORDER ELFDATA2MSB
#endif

struct file {
    elf_read_fn *read;
    void        *ctx;
    ElfW(Phdr)   segments[SEGMENTS_MAX];
    size_t       n_segments;
    uint64_t     strings; /* where the table of names lies in the file, and its size */
    uint64_t     n_strings;
};

static bool read_all(struct file *f, uint64_t offset, void *buf, size_t n)
{
    return f->read(f->ctx, offset, buf, n) == (ssize_t) n;
}

static int read_segments(struct file *f)
{
    ElfW(Ehdr) h;

    if (!read_all(f, 0, &h, sizeof h) || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0)
        return -ENOEXEC;
    if (h.e_ident[EI_CLASS] != OWN_CLASS || h.e_ident[EI_DATA] != OWN_ORDER || h.e_phentsize != sizeof f->segments[0] ||
        h.e_phnum > SEGMENTS_MAX)
        return -ENOEXEC;
    f->n_segments = h.e_phnum;
    return read_all(f, h.e_phoff, f->segments, f->n_segments * sizeof f->segments[0]) ? 0 : -ENOEXEC;
}

/* Where an address of the loaded program lies in the file. */
static int offset_of(const struct file *f, uint64_t address, uint64_t *ret)
{
    size_t i;

    for (i = 0; i < f->n_segments; i++) {
        const ElfW(Phdr) *s = &f->segments[i];

        if (s->p_type == PT_LOAD && address >= s->p_vaddr && address - s->p_vaddr < s->p_filesz) {
            *ret = s->p_offset + (address - s->p_vaddr);
            return 0;
        }
    }
    return -ENOEXEC;
}

static int read_name(struct file *f, uint64_t at, char **ret)
{
    uint64_t left = at < f->n_strings ? f->n_strings - at : 0;
    char     buf[ELF_NAME_MAX];
    ssize_t  n = left > 0 ? f->read(f->ctx, f->strings + at, buf, left < sizeof buf ? (size_t) left : sizeof buf) : -1;

    if (n <= 0 || !memchr(buf, '\0', (size_t) n))
        return -ENOEXEC;
    free(*ret);
    *ret = strdup(buf);
    return *ret ? 0 : -ENOMEM;
}

static int take_entry(struct file *f, const ElfW(Dyn) *d, struct elf_links *l)
{
    switch (d->d_tag) {
    case DT_NEEDED:
        return l->n_needed < ELF_NEEDED_MAX ? read_name(f, d->d_un.d_val, &l->needed[l->n_needed++]) : 0;
    case DT_SONAME:
        return read_name(f, d->d_un.d_val, &l->soname);
    case DT_RPATH:
        return read_name(f, d->d_un.d_val, &l->rpath);
    case DT_RUNPATH:
        return read_name(f, d->d_un.d_val, &l->runpath);
    default:
        return 0;
    }
}

static int read_dynamic(struct file *f, const ElfW(Phdr) *s, struct elf_links *l)
{
    size_t                  n = (size_t) (s->p_filesz / sizeof(ElfW(Dyn))), i;
    CC_AUTO_FREE ElfW(Dyn) *list = NULL;
    uint64_t                address = 0;
    int                     r;

    if (n == 0 || n > ENTRIES_MAX)
        return -ENOEXEC;
    list = malloc(n * sizeof *list);
    if (!list)
        return -ENOMEM;
    if (!read_all(f, s->p_offset, list, n * sizeof *list))
        return -ENOEXEC;
    for (i = 0; i < n && list[i].d_tag != DT_NULL; i++) {
        if (list[i].d_tag == DT_STRTAB)
            address = list[i].d_un.d_ptr;
        else if (list[i].d_tag == DT_STRSZ)
            f->n_strings = list[i].d_un.d_val;
    }
    r = offset_of(f, address, &f->strings);
    for (i = 0; r == 0 && i < n && list[i].d_tag != DT_NULL; i++)
        r = take_entry(f, &list[i], l);
    return r;
}

int elf_read(elf_read_fn *read, void *ctx, struct elf_links *ret)
{
    struct file f = { .read = read, .ctx = ctx };
    size_t      i;
    int         r;

    *ret = (struct elf_links) { .soname = NULL };
    r = read_segments(&f);
    for (i = 0; r == 0 && i < f.n_segments; i++)
        if (f.segments[i].p_type == PT_DYNAMIC)
            return read_dynamic(&f, &f.segments[i], ret);
    return r < 0 ? r : -ENOEXEC; /* linked statically */
}

static ssize_t read_fd(void *ctx, uint64_t offset, void *buf, size_t n)
{
    const int *fd = ctx;
    ssize_t    got = 0, r = 1;

    while (r > 0 && (size_t) got < n) {
        r = pread(*fd, (char *) buf + got, n - (size_t) got, (off_t) (offset + (uint64_t) got));
        got += r > 0 ? r : 0;
    }
    return r < 0 ? -errno : got;
}

int elf_read_file(const char *path, struct elf_links *ret)
{
    CC_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    *ret = (struct elf_links) { .soname = NULL };
    return fd < 0 ? -errno : elf_read(read_fd, &fd, ret);
}

void elf_clear(struct elf_links *l)
{
    free(l->soname);
    free(l->rpath);
    free(l->runpath);
    while (l->n_needed > 0)
        free(l->needed[--l->n_needed]);
    *l = (struct elf_links) { .soname = NULL };
}
