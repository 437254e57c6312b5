/* fuzz_words.c - lines that other processes and other nodes leave somewhere for us: in a file, in etcd, in
 * the store, in a pipe.
 *
 * The first byte says which kind of line it is.  What is read is written again, where we write such lines,
 * and read as the same.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/verdict.h"
#include "agent/directory_inside.h"
#include "agent/hosting.h"
#include "backends/whois.h"
#include "launcher/check_facts.h"
#include "store/base/pyvalue.h"
#include "store/core/base64.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The host of a job, in the shared file or in etcd: bytes of any kind, with an end but no NUL. */
static void read_host(const char *text, size_t n)
{
    struct directory_host  h, same_h;
    struct directory_owner o, same_o;
    char                   line[DIRECTORY_LINE_MAX];

    if (directory_read(text, n, &h, &o) < 0)
        return;
    assert(h.port > 0 && h.addr[0] && h.name[0]);
    n = directory_write(&h, &o, line);
    assert(n < sizeof line && directory_read(line, n, &same_h, &same_o) == 0);
    assert(strcmp(h.addr, same_h.addr) == 0 && h.port == same_h.port && h.incarnation == same_h.incarnation);
    assert(o.pid == same_o.pid && o.started == same_o.started && o.pid_space == same_o.pid_space);
}

/* What the check before the workers has found, line by line. */
static void read_verdict(char *text)
{
    struct verdict v = { .n_lines = 0 };
    char          *rest, *line;

    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        verdict_take(&v, line);
    assert(v.n_lines == 0 ? v.word == VERDICT_NONE : v.word > VERDICT_NONE && v.id[0] != '\0');
    (void) verdict_act(&v, VERDICT_EXCLUDE, 1, 1, false);
    assert(strlen(v.text) < sizeof v.text);
}

static void read_facts(const char *text)
{
    static struct nodefacts f, same;
    const struct nodefacts *both[2] = { &f, &same };
    struct cc_buf           again = { .p = NULL };

    nodefacts_parse(&f, text);
    if (nodefacts_write(&f, &again) < 0 || cc_buf_add(&again, "", 1) < 0)
        abort();
    nodefacts_parse(&same, (const char *) cc_buf_data(&again));
    assert(f.n == same.n);
    for (unsigned i = 0; i < f.n; i++)
        assert(strcmp(f.list[i].name, same.list[i].name) == 0 &&
               strcmp(f.list[i].value, same.list[i].value) == 0);
    assert(nodefacts_compare(both, 2, NULL, 0) == 0);
    cc_buf_free(&again);
}

/* Who has a rank in a store: of an older process, or of a liar. */
static void read_whois(const char *text)
{
    struct whois w, same;
    char         line[WHOIS_TEXT_MAX];

    whois_read(&w, text);
    assert(w.pid >= 0);
    if (w.pid == 0)
        return;
    whois_read(&same, whois_write(&w, line));
    assert(same.pid == w.pid && same.start == w.start && same.attempt == w.attempt &&
           strcmp(same.host, w.host) == 0);
}

static void read_number(const char *text)
{
    int64_t n;
    double  d;
    char    shown[32];

    if (pyvalue_int(text, &n) == 0)
        assert(pyvalue_float(text, &d) == 0);
    assert(strlen(pyvalue_repr(text, shown, sizeof shown)) < sizeof shown);
}

static void read_base64(char *text)
{
    size_t  len = strlen(text);
    ssize_t n = base64_decode(text, len, (uint8_t *) text); /* in place, as the client of etcd does */

    assert(n < 0 || (size_t) n <= len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t              n = size > 0 ? size - 1 : 0;
    char               *text = malloc(n + 1);
    struct hostpick_net net;
    struct cc_err       err = { 0 };

    if (!text)
        return 0;
    if (n > 0)
        memcpy(text, data + 1, n);
    text[n] = '\0';
    switch (size > 0 ? data[0] % 7 : 0) {
    case 0: read_host(text, n); break;
    case 1: read_verdict(text); break;
    case 2: read_facts(text); break;
    case 3: read_whois(text); break;
    case 4: read_number(text); break;
    case 5: read_base64(text); break;
    default: assert(hosting_parse_subnet(&net, text, &err) == 0 || err.msg[0]); break;
    }
    free(text);
    return 0;
}
