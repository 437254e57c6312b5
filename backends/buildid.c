#include "backends/buildid.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct search {
    uintptr_t at;
    char     *buf;
};

static bool has(const struct dl_phdr_info *info, uintptr_t at)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        if (p->p_type == PT_LOAD && at - (info->dlpi_addr + p->p_vaddr) < p->p_memsz)
            return true;
    }
    return false;
}

/* Notes are a header, a name and a description, each of the latter padded to four bytes. */
static void read_notes(const char *at, size_t n, char *buf)
{
    ElfW(Nhdr) h;

    while (n >= sizeof h) {
        size_t name, whole;

        memcpy(&h, at, sizeof h);
        name = sizeof h + (((size_t) h.n_namesz + 3) & ~(size_t) 3);
        whole = name + (((size_t) h.n_descsz + 3) & ~(size_t) 3);
        if (whole > n)
            return;
        if (h.n_type == NT_GNU_BUILD_ID && h.n_namesz == 4 && memcmp(at + sizeof h, "GNU", 4) == 0) {
            for (size_t i = 0; i < h.n_descsz && 2 * i + 2 < BUILDID_TEXT_MAX; i++)
                (void) snprintf(buf + 2 * i, 3, "%02x", (unsigned char) at[name + i]);
            return;
        }
        at += whole;
        n -= whole;
    }
}

static int look(struct dl_phdr_info *info, size_t size, void *ctx)
{
    const struct search *s = ctx;

    (void) size;
    if (!has(info, s->at))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        if (p->p_type == PT_NOTE) /* NOLINTNEXTLINE(performance-no-int-to-ptr): it is loaded there */
            read_notes((const char *) (info->dlpi_addr + p->p_vaddr), p->p_memsz, s->buf);
    }
    return 1;
}

const char *buildid_of(const void *object, char buf[BUILDID_TEXT_MAX])
{
    struct search s = { (uintptr_t) object, buf };

    (void) snprintf(buf, BUILDID_TEXT_MAX, "unknown");
    (void) dl_iterate_phdr(look, &s);
    return buf;
}
