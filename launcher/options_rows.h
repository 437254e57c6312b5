/* options_rows.h - the table behind options.c and options_text.c; nobody else includes it. */
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

enum { OPTION_VAR_MAX = 64 };

extern const struct option_row option_rows[OPTIONS_N];

static inline bool option_has_arg(const struct option_row *row)
{
    return row->kind != KIND_FLAG && row->kind != KIND_COUNT;
}

static inline bool option_has_variable(enum option_id id)
{
    return id != OPTION_help && id != OPTION_version && id != OPTION_dump;
}

/* CCRUN_LOG_DIR for ("CCRUN_", --log-dir); returns buf, OPTION_VAR_MAX long. */
const char *option_variable(const char *prefix, const struct option_row *row, char *buf);
/* log_dir for log-dir; false when that is the same. */
bool option_underscored(const struct option_row *row, char *buf);

#endif
