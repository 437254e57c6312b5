/* replay DIR - give each file of DIR to a fuzzer once, without libFuzzer: what the fuzzers have found stays mended, and the
 * fuzzers themselves keep up with what they look at. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path)
{
    FILE       *f = fopen(path, "rb");
    struct stat st;
    uint8_t    *bytes;

    if (!f || fstat(fileno(f), &st) < 0) {
        perror(path);
        return -1;
    }
    bytes = malloc((size_t) st.st_size); /* not one byte more than there is may be read */
    if ((!bytes && st.st_size > 0) || fread(bytes, 1, (size_t) st.st_size, f) != (size_t) st.st_size) {
        perror(path);
        return -1;
    }
    (void) fclose(f);
    (void) LLVMFuzzerTestOneInput(bytes, (size_t) st.st_size);
    free(bytes);
    return 0;
}

int main(int argc, char **argv)
{
    DIR           *d = argc == 2 ? opendir(argv[1]) : NULL;
    struct dirent *e;
    unsigned       n = 0;
    char           path[4096];

    if (!d) {
        perror(argc == 2 ? argv[1] : "replay DIR");
        return 1;
    }
    while ((e = readdir(d)))
        if (e->d_name[0] != '.') {
            (void) snprintf(path, sizeof path, "%s/%s", argv[1], e->d_name);
            if (replay(path) < 0)
                return 1;
            n++;
        }
    (void) closedir(d);
    return n == 0;
}
