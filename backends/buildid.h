/* buildid.h - which build of a library it is that is loaded. */
#ifndef BACKENDS_BUILDID_H
#define BACKENDS_BUILDID_H

enum { BUILDID_TEXT_MAX = 17 };

/* The first digits of the build id of what has `object` in it; "unknown". Returns buf. */
const char *buildid_of(const void *object, char buf[BUILDID_TEXT_MAX]);

#endif
