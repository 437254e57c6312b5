/* calltext.h - a call in words: "all-reduce of 1024 f32 (sum)", "broadcast of 8 u8 from rank 2". Pure. */
#ifndef BACKENDS_CALLTEXT_H
#define BACKENDS_CALLTEXT_H

#include "backends/ccrun.h"

enum { CALLTEXT_MAX = 96 };

const char *calltext_name(enum ccrun_what what); /* "all-reduce"; NULL: no such call */
const char *calltext(const struct ccrun_call *call, char buf[CALLTEXT_MAX]); /* returns buf */

#endif
