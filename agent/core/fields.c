#include "agent/core/fields.h"

#include <assert.h>
#include <string.h>

uint64_t fields_number(struct fields *f, unsigned n_bytes, uint64_t value, uint64_t max)
{
    unsigned i;

    if (f->out) {
        assert(value <= max && f->n + n_bytes <= f->size);
        for (i = 0; i < n_bytes; i++)
            f->out[f->n++] = (uint8_t) (value >> 8 * (n_bytes - 1 - i));
        return value;
    }
    if (f->size - f->n < n_bytes) {
        f->bad = "is cut short";
        f->n = f->size;
        return 0;
    }
    for (value = 0, i = 0; i < n_bytes; i++)
        value = value << 8 | f->in[f->n++];
    if (value <= max)
        return value;
    f->bad = "has a value that does not exist";
    return 0;
}

void fields_u16(struct fields *f, uint16_t *v)
{
    *v = (uint16_t) fields_number(f, 2, *v, UINT16_MAX);
}

void fields_u32(struct fields *f, uint32_t *v)
{
    *v = (uint32_t) fields_number(f, 4, *v, UINT32_MAX);
}

void fields_i32(struct fields *f, int32_t *v)
{
    *v = (int32_t) fields_number(f, 4, (uint32_t) *v, UINT32_MAX);
}

void fields_u64(struct fields *f, uint64_t *v)
{
    *v = fields_number(f, 8, *v, UINT64_MAX);
}

void fields_flag(struct fields *f, bool *v)
{
    *v = fields_number(f, 1, *v, 1) != 0;
}

static bool is_text(uint8_t c)
{
    return c >= 0x20 && c != 0x7f;
}

void fields_text(struct fields *f, char *v, size_t size)
{
    size_t len = f->out ? strnlen(v, size - 1) : 0, i;

    len = (size_t) fields_number(f, 2, len, size - 1);
    if (f->out) {
        assert(f->n + len <= f->size);
        for (i = 0; i < len; i++)
            f->out[f->n++] = is_text((uint8_t) v[i]) ? (uint8_t) v[i] : '?';
        return;
    }
    if (f->size - f->n < len) {
        f->bad = "is cut short";
        len = f->size - f->n;
    }
    for (i = 0; i < len; i++) {
        uint8_t c = f->in[f->n++];

        if (!is_text(c))
            f->bad = "has a byte that is no text";
        v[i] = (char) c;
    }
    v[len] = '\0';
}

void fields_cause(struct fields *f, struct rdzv_cause *c)
{
    c->kind = (enum rdzv_cause_kind) fields_number(f, 1, c->kind, RDZV_CAUSE_N_KINDS - 1);
    fields_u32(f, &c->round);
    fields_u64(f, &c->at);
    fields_u32(f, &c->rank);
    fields_u32(f, &c->code);
    fields_u64(f, &c->progress);
    fields_flag(f, &c->is_final);
    fields_text(f, c->host, sizeof(c->host));
    fields_text(f, c->text, sizeof(c->text));
}
