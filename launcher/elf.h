/* elf.h - which shared libraries a program or library asks for, read from its file: nothing is run and nothing is loaded.
 *
 * Files of this machine's own kind only (word size, byte order).  Every offset and length in the file is checked.
 */
#ifndef LAUNCHER_ELF_H
#define LAUNCHER_ELF_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { ELF_NEEDED_MAX = 256, ELF_NAME_MAX = 4096 };

struct elf_links {
    char  *soname;          /* NULL: it has none */
    char  *rpath, *runpath; /* as they stand there, $ORIGIN and all; NULL */
    char  *needed[ELF_NEEDED_MAX];
    size_t n_needed;
};

/* The `n` bytes at `offset`: how many were read, which is less at the end only, or negative. */
typedef ssize_t elf_read_fn(void *ctx, uint64_t offset, void *buf, size_t n);

/* 0; -ENOEXEC: it is no such file, or has no such list; -ENOMEM.  Release with elf_clear() in any case. */
int  elf_read(elf_read_fn *read, void *ctx, struct elf_links *ret);
int  elf_read_file(const char *path, struct elf_links *ret); /* also a negative errno of open() */
void elf_clear(struct elf_links *l);

#endif
