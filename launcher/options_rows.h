/* options_rows.h - the table behind options.c, options_value.c and options_text.c; for these only. */
#ifndef LAUNCHER_OPTIONS_ROWS_H
#define LAUNCHER_OPTIONS_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "launcher/options.h"

enum option_kind {
    KIND_FLAG,
    KIND_COUNT,
    KIND_INT,
    KIND_FLOAT,
    KIND_STR,
    KIND_CHOICE,
    KIND_LIST,
    KIND_ADD,
    KIND_SIZE,
    KIND_SECONDS,
    KIND_RATE,
};

enum option_origin { ORIGIN_PET, ORIGIN_TORCH, ORIGIN_OURS };

struct option_row {
    size_t             offset; /* of the field in struct options */
    enum option_kind   kind;
    enum option_origin origin;
    const char        *name; /* dashed, without the two in front */
    char               letter;
    const char        *arg, *dflt, *group, *help;
};

enum { OPTION_VAR_MAX = 64, OPTION_NAME_MAX = 64 };

extern const struct option_row option_rows[OPTIONS_N];

static inline bool option_has_arg(const struct option_row *row)
{
    return row->kind != KIND_FLAG && row->kind != KIND_COUNT;
}

static inline bool option_has_variable(enum option_id id)
{
    return id != OPTION_help && id != OPTION_version && id != OPTION_expand_hosts && id != OPTION_dump &&
           id != OPTION_probe && id != OPTION_agent_fd;
}

/* CCRUN_LOG_DIR for ("CCRUN_", --log-dir); returns buf, OPTION_VAR_MAX long. */
const char *option_variable(const char *prefix, const struct option_row *row, char *buf);
/* log_dir for log-dir; false when that is the same. */
bool option_underscored(const struct option_row *row, char *buf);

/* One value on its way into the struct. */
struct option_setting {
    struct options    *o;
    enum option_id     id;
    const char        *text;
    enum option_source source;
    const char        *source_name; /* the variable, or who decided */
};

int option_set(const struct option_setting *s, struct cc_err *err); /* options_value.c */

/* "argument --tee: ..." as argparse says it. -EINVAL. */
int option_refuse(const struct option_row *row, struct cc_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Memory that options_free() releases; NULL and err when there is none. */
void *option_take(struct options *o, size_t size, struct cc_err *err);

#endif
