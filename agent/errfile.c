#include "agent/errfile.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/atomicfile.h"
#include "store/base/cleanup.h"

static void json_freep(cJSON **p)
{
    cJSON_Delete(*p);
}

#define AUTO_JSON CC_AUTO(json_freep)

static int hex4(const char *s)
{
    int v = 0;

    for (int i = 0; i < 4; i++) {
        int d = s[i] >= '0' && s[i] <= '9'                 ? s[i] - '0'
                : (s[i] | 32) >= 'a' && (s[i] | 32) <= 'f' ? (s[i] | 32) - 'a' + 10
                                                           : -1;

        if (d < 0)
            return -1;
        v = v * 16 + d;
    }
    return v;
}

static bool is_high(int v)
{
    return v >= 0xd800 && v < 0xdc00;
}

static bool is_low(int v)
{
    return v >= 0xdc00 && v < 0xe000;
}

/* Python writes a byte that is no UTF-8 (in a file name, say) as a lone \udcXX, which cJSON refuses, and NUL
 * as \u0000, which would end the C string: both become \ufffd.  `s` ends in NUL. */
static void mend_escapes(char *s)
{
    while ((s = strchr(s, '\\'))) {
        int v = s[1] == 'u' ? hex4(s + 2) : -1;

        if (v < 0) {
            s += s[1] ? 2 : 1;
            continue;
        }
        if (is_high(v) && s[6] == '\\' && s[7] == 'u' && is_low(hex4(s + 8))) {
            s += 12;
            continue;
        }
        if (v == 0 || is_high(v) || is_low(v)) {
            memset(s + 2, 'f', 3);
            s[5] = 'd';
        }
        s += 6;
    }
}

/* The document, or NULL; blanks may follow it, nothing else: half of a longer file must not pass. */
static cJSON *parse(char *text)
{
    const char *end;
    cJSON      *doc;

    mend_escapes(text);
    doc = cJSON_ParseWithOpts(text, &end, false);
    if (doc && end[strspn(end, " \t\r\n")] != '\0') {
        cJSON_Delete(doc);
        return NULL;
    }
    return doc;
}

static int64_t timestamp_of(const cJSON *j)
{
    char     *end;
    long long v;

    if (cJSON_IsNumber(j) && j->valuedouble > 0 && j->valuedouble < 1e15)
        return (int64_t) j->valuedouble;
    if (!cJSON_IsString(j))
        return 0;
    errno = 0;
    v = strtoll(j->valuestring, &end, 10);
    return errno == 0 && end != j->valuestring && *end == '\0' && v > 0 ? v : 0;
}

static int dup_text(const cJSON *j, char **ret)
{
    if (!cJSON_IsString(j) || j->valuestring[0] == '\0')
        return 0;
    *ret = strdup(j->valuestring);
    return *ret ? 0 : -ENOMEM;
}

/* "Type: text" is also how a traceback ends: used when an object says no more than the traceback. */
static int message_from_callstack(struct errfile *e)
{
    size_t      len = strlen(e->callstack);
    const char *nl;

    while (len > 0 && strchr(" \n", e->callstack[len - 1]))
        len--;
    nl = memrchr(e->callstack, '\n', len);
    len -= nl ? (size_t) (nl + 1 - e->callstack) : 0;
    e->message = len > 0 ? strndup(nl ? nl + 1 : e->callstack, len) : NULL;
    return len > 0 && !e->message ? -ENOMEM : 0;
}

static int fill(struct errfile *e, const cJSON *doc)
{
    const cJSON *message = cJSON_GetObjectItemCaseSensitive(doc, "message");
    const cJSON *extra = cJSON_GetObjectItemCaseSensitive(message, "extraInfo");
    bool         is_object = cJSON_IsObject(message);
    int          r;

    r = dup_text(is_object ? cJSON_GetObjectItemCaseSensitive(message, "message") : message, &e->message);
    if (r == 0 && is_object)
        r = dup_text(cJSON_GetObjectItemCaseSensitive(extra, "py_callstack"), &e->callstack);
    if (r == 0 && !e->message && e->callstack)
        r = message_from_callstack(e);
    e->timestamp = timestamp_of(cJSON_GetObjectItemCaseSensitive(is_object ? extra : doc, "timestamp"));
    return r;
}

int errfile_parse(const char *text, size_t len, struct errfile *ret, struct cc_err *err)
{
    CC_AUTO_FREE char *copy = NULL;
    AUTO_JSON cJSON   *doc = NULL;
    struct errfile     e = { 0 };

    if (len == 0)
        return cc_fail(err, -ENODATA, "it is empty");
    if (len > ERRFILE_MAX)
        return cc_fail(err, -EFBIG, "it is larger than %d bytes", ERRFILE_MAX);
    copy = strndup(text, len);
    if (!copy)
        return cc_fail(err, -ENOMEM, "no memory");
    doc = strlen(copy) == len ? parse(copy) : NULL;
    if (!doc)
        return cc_fail(err, -EBADMSG, "it is no whole JSON document");
    if (!cJSON_HasObjectItem(doc, "message"))
        return cc_fail(err, -EBADMSG, "it has no 'message'");
    if (fill(&e, doc) < 0) {
        errfile_done(&e);
        return cc_fail(err, -ENOMEM, "no memory");
    }
    if (!e.message) {
        errfile_done(&e);
        return cc_fail(err, -EBADMSG, "its 'message' holds no text");
    }
    *ret = e;
    return 1;
}

void errfile_done(struct errfile *e)
{
    free(e->message);
    free(e->callstack);
    *e = (struct errfile){ 0 };
}

/* 1 and the bytes, 0 when there is no such file. */
static int slurp(const char *path, char **ret_text, size_t *ret_len, uint64_t *ret_mtime_ms,
                 struct cc_err *err)
{
    CC_AUTO_FD int     fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    CC_AUTO_FREE char *text = NULL;
    struct stat        st;
    size_t             len = 0;
    ssize_t            n;

    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return 0;
    if (fd < 0)
        return cc_fail(err, -errno, "%s", errno == ELOOP ? "it is a symbolic link" : strerror(errno));
    if (fstat(fd, &st) < 0)
        return cc_fail(err, -errno, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return cc_fail(err, -EINVAL, "it is no regular file");
    if (st.st_size > ERRFILE_MAX)
        return cc_fail(err, -EFBIG, "it is larger than %d bytes", ERRFILE_MAX);
    text = malloc((size_t) st.st_size + 1);
    if (!text)
        return cc_fail(err, -ENOMEM, "no memory");
    while (len < (size_t) st.st_size && (n = read(fd, text + len, (size_t) st.st_size - len)) != 0) {
        if (n < 0)
            return cc_fail(err, -errno, "%s", strerror(errno));
        len += (size_t) n;
    }
    text[len] = '\0';
    *ret_text = CC_STEAL(text);
    *ret_len = len;
    *ret_mtime_ms = (uint64_t) st.st_mtim.tv_sec * 1000 + (uint64_t) st.st_mtim.tv_nsec / 1000000;
    return 1;
}

int errfile_read(const char *path, struct errfile *ret, struct cc_err *err)
{
    CC_AUTO_FREE char *text = NULL;
    size_t             len;
    uint64_t           mtime_ms;
    int                r = slurp(path, &text, &len, &mtime_ms, err);

    if (r == 0)
        return 0;
    if (r > 0)
        r = errfile_parse(text, len, ret, err);
    if (r < 0)
        return cc_wrap(err, "the error file '%s' is ignored", path);
    ret->mtime_ms = mtime_ms;
    return 1;
}

struct cJSON *errfile_load(const char *path)
{
    CC_AUTO_FREE char *text = NULL;
    size_t             len;
    uint64_t           mtime_ms;
    cJSON             *doc;

    if (slurp(path, &text, &len, &mtime_ms, NULL) <= 0 || !text)
        return NULL;
    doc = parse(text);
    if (doc && !cJSON_HasObjectItem(doc, "message")) {
        cJSON_Delete(doc);
        return NULL;
    }
    return doc;
}

static int write_doc(const char *to, const cJSON *doc, struct cc_err *err)
{
    CC_AUTO_FREE char *text = cJSON_PrintUnformatted(doc);

    if (!text)
        return cc_fail(err, -ENOMEM, "no memory for '%s'", to);
    return atomicfile_write(to, text, strlen(text), err);
}

int errfile_copy(const char *from, const char *to, int exit_code, struct cc_err *err)
{
    AUTO_JSON cJSON *doc = errfile_load(from);
    cJSON           *message;

    if (!doc)
        return cc_fail(err, -EBADMSG, "copy the error file '%s' to '%s': it cannot be read any more", from,
                       to);
    message = cJSON_GetObjectItemCaseSensitive(doc, "message");
    if (cJSON_IsObject(message)) {
        cJSON_DeleteItemFromObjectCaseSensitive(message, "errorCode");
        if (!cJSON_AddNumberToObject(message, "errorCode", exit_code))
            return cc_fail(err, -ENOMEM, "no memory for '%s'", to);
    }
    return write_doc(to, doc, err);
}

int errfile_write(const char *to, const char *message, int64_t timestamp, struct cc_err *err)
{
    AUTO_JSON cJSON *doc = cJSON_CreateObject();
    cJSON           *outer = cJSON_AddObjectToObject(doc, "message");
    cJSON           *extra;
    char             seconds[24];

    (void) snprintf(seconds, sizeof seconds, "%" PRId64, timestamp);
    if (!cJSON_AddStringToObject(outer, "message", message) ||
        !(extra = cJSON_AddObjectToObject(outer, "extraInfo")) ||
        !cJSON_AddStringToObject(extra, "py_callstack", "") ||
        !cJSON_AddStringToObject(extra, "timestamp", seconds))
        return cc_fail(err, -ENOMEM, "no memory for '%s'", to);
    return write_doc(to, doc, err);
}
