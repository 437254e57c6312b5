/* check_table.h - a report of ccrun-check for people: at most 80 columns, a bar a row. Pure. */
#ifndef LAUNCHER_CHECK_TABLE_H
#define LAUNCHER_CHECK_TABLE_H

#include <stdbool.h>

#include "launcher/check.h"
#include "store/base/buf.h"

struct check_style {
    bool is_utf8;   /* bars of eighths of a block; else '#' */
    bool is_colour; /* for a terminal */
};

/* -ENOMEM */
int check_table(const struct check_report *r, const struct check_style *style, struct cc_buf *to);

/* Texts of numbers: "64K", "85.2 ms", "0.788"; buf holds CHECK_NUMBER_MAX. */
enum { CHECK_NUMBER_MAX = 24 };
const char *check_size_text(uint64_t bytes, char *buf);
const char *check_time_text(uint64_t ns, char *buf);
const char *check_gbs_text(double gbs, char *buf);

/* `part` of `whole` as at most `width` columns; buf has room for 3 * width + 1 bytes. */
const char *check_bar(double part, double whole, unsigned width, bool is_utf8, char *buf);

#endif
