#include "store/base/shared.h"

#include <stddef.h>

#ifdef CCRUN_STATIC

bool cc_shared_can(void)
{
    return false;
}

void *cc_shared_open(const char *name)
{
    (void) name;
    return NULL;
}

const char *cc_shared_error(void)
{
    return "this program is static";
}

void *cc_shared_symbol(void *library, const char *name)
{
    (void) library, (void) name;
    return NULL;
}

void cc_shared_close(void *library)
{
    (void) library;
}

#else

#include <dlfcn.h>

bool cc_shared_can(void)
{
    return true;
}

void *cc_shared_open(const char *name)
{
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

const char *cc_shared_error(void)
{
    const char *why = dlerror();

    return why ? why : "no reason is given";
}

void *cc_shared_symbol(void *library, const char *name)
{
    return dlsym(library, name);
}

void cc_shared_close(void *library)
{
    (void) dlclose(library);
}

#endif
