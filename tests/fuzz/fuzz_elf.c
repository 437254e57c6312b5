/* fuzz_elf.c - whatever stands where a program or a library is expected: what it links is read from it, or it
 * is none. */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "launcher/elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct image {
    const uint8_t *p;
    size_t         n;
};

static ssize_t read_image(void *ctx, uint64_t offset, void *buf, size_t n)
{
    const struct image *i = ctx;

    if (offset >= i->n)
        return 0;
    n = n < i->n - offset ? n : i->n - (size_t) offset;
    memcpy(buf, i->p + offset, n);
    return (ssize_t) n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct image     i = { data, size };
    struct elf_links l;
    int              r = elf_read(read_image, &i, &l);

    assert(r == 0 || r == -ENOEXEC);
    assert(l.n_needed <= ELF_NEEDED_MAX);
    for (size_t k = 0; r == 0 && k < l.n_needed; k++)
        assert(l.needed[k] && strlen(l.needed[k]) < ELF_NAME_MAX);
    elf_clear(&l);
    return 0;
}
