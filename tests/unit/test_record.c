#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/record.h"

/* One of each kind, with something in every field that could get lost. */
static struct record example(enum record_kind kind)
{
    struct record r = { .kind = kind, .now = 77777777777, .sum = 0xdeadbeef };

    switch (kind) {
    case RECORD_MEMBER:
        r.u.member = (struct member_cfg) {
            .node = { .term_grace = 1, .kill_grace = 2, .sweep_grace = 3 }, .incarnation = 4,
            .about = { .nproc = 8, .wish = -1, .host = "h", .plan = { 1, 2, 3, "train.py", "0.1" } },
            .heartbeat = 5, .join_timeout = 6, .lost_after = 7, .exit_barrier = UINT64_MAX,
        };
        break;
    case RECORD_COORDINATOR:
        r.u.rdzv = (struct rdzv_cfg) {
            1, 2, 3, 4, 25, 5, { 6, 7, 8, 9, 10, 11 }, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, true, true,
            { 22, 23, 24, "p", "v" },
        };
        break;
    case RECORD_VIEW:
        r.u.view = (struct rdzv_view) { .incarnation = 1, .seq = 2, .round = 3, .group_rank = 4, .master = "h1" };
        break;
    case RECORD_REFUSED:
        r.u.refused = (struct rdzv_refused) { RDZV_REFUSED_PLAN, 5, "no" };
        break;
    case RECORD_EXITED:
        r.u.exited.status = 256;
        r.u.exited.is_terminal = true;
        break;
    case RECORD_SETTLE:
        r.u.settle.is_drained = true;
        break;
    case RECORD_NOTICE: case RECORD_PAUSED:
        r.u.ms = 60000;
        break;
    case RECORD_SIGNAL: case RECORD_CANNOT_START: case RECORD_SWITCHED: case RECORD_ENDED:
        r.u.number = 127;
        break;
    case RECORD_DESCRIBED:
        r.u.cause = (struct rdzv_cause) { RDZV_CAUSE_WORKER, 1, 2, 3, 4, 5, true, "h", "exit code 4" };
        break;
    case RECORD_HELLO:
        r.u.heard.link = 9;
        r.u.heard.hello = (struct rdzv_hello) { .incarnation = 8, .seq = 7, .phase = RDZV_NODE_DONE };
        break;
    case RECORD_BROKEN:
        r.u.heard.link = 9;
        r.u.heard.incarnation = 8;
        break;
    case RECORD_STATE:
        r.u.state.n_left = 70000;
        r.u.state.n = RECORD_PIECE;
        memset(r.u.state.bytes, 'x', RECORD_PIECE);
        break;
    case RECORD_CONNECTED: case RECORD_PRESSED: case RECORD_TICK: case RECORD_STARTED: case RECORD_DUE: case RECORD_N_KINDS:
        break;
    }
    return r;
}

Test(record, every_kind_comes_back_as_it_was)
{
    for (unsigned kind = 0; kind < RECORD_N_KINDS; kind++) {
        struct record r = example((enum record_kind) kind), got;
        uint8_t       bytes[RECORD_MAX], again[RECORD_MAX];
        struct cc_err err;
        size_t        n = record_encode(&r, bytes), used;

        cr_assert_eq(record_decode(bytes, n, &used, &got, &err), 1, "%u: %s", kind, err.msg);
        cr_expect_eq(used, n);
        cr_expect_eq(got.kind, kind);
        cr_expect(got.now == r.now && got.sum == r.sum);
        cr_expect_eq(record_encode(&got, again), n);
        cr_expect_arr_eq(again, bytes, n, "%u", kind);
    }
}

Test(record, the_configuration_of_a_coordinator_is_complete)
{
    struct record r = example(RECORD_COORDINATOR), got;
    uint8_t       bytes[RECORD_MAX];
    struct cc_err err;
    size_t        used;

    cr_assert_eq(record_decode(bytes, record_encode(&r, bytes), &used, &got, &err), 1);
    cr_expect_eq(got.u.rdzv.expected, r.u.rdzv.expected);
    cr_expect_eq(memcmp(&got.u.rdzv.budget, &r.u.rdzv.budget, sizeof r.u.rdzv.budget), 0);
    cr_expect_eq(got.u.rdzv.last_call, 12);
    cr_expect_eq(got.u.rdzv.own, 21);
    cr_expect(got.u.rdzv.has_successor && got.u.rdzv.scales_on_restart_only);
    cr_expect_str_eq(got.u.rdzv.plan.version, "v");
}

Test(record, an_entry_that_is_cut_off_is_not_there_yet)
{
    struct record r = example(RECORD_MEMBER), got;
    uint8_t       bytes[RECORD_MAX];
    struct cc_err err;
    size_t        n = record_encode(&r, bytes), used;

    for (size_t i = 0; i < n; i++)
        cr_assert_eq(record_decode(bytes, i, &used, &got, &err), 0, "%zu of %zu bytes", i, n);
}

Test(record, what_is_no_entry_is_refused)
{
    struct record r = example(RECORD_VIEW), got;
    uint8_t       bytes[RECORD_MAX];
    struct cc_err err;
    size_t        n = record_encode(&r, bytes), used;

    bytes[2] = RECORD_N_KINDS;
    cr_expect_eq(record_decode(bytes, n, &used, &got, &err), -EPROTO);
    bytes[2] = RECORD_REFUSED; /* with a view in it */
    cr_expect_eq(record_decode(bytes, n, &used, &got, &err), -EPROTO);
    cr_expect_str_eq(err.msg, "the recording is damaged: its entry of kind 2 has a message that cannot be read");
    bytes[2] = RECORD_VIEW;
    bytes[1]++; /* longer than its content */
    cr_expect_eq(record_decode(bytes, n + 1, &used, &got, &err), -EPROTO);
    bytes[0] = 0xff;
    cr_expect_eq(record_decode(bytes, n, &used, &got, &err), -EPROTO);
}

Test(record, has_a_version)
{
    uint8_t       head[RECORD_HEAD];
    struct cc_err err;

    record_head(head);
    cr_expect_eq(record_check_head(head, sizeof head, &err), 0);
    head[RECORD_HEAD - 1]++;
    cr_expect_eq(record_check_head(head, sizeof head, &err), -EPROTO);
    cr_expect_str_eq(err.msg, "the recording has version 4, and this program knows 3");
    cr_expect_eq(record_check_head((const uint8_t *) "#!/bin/sh", 9, &err), -EPROTO);
    cr_expect_str_eq(err.msg, "this is no recording of a job");
}

Test(record, the_sum_tells_decisions_apart)
{
    uint32_t a = record_sum_number(0, RECORD_DOES_START, 1), b = record_sum_number(0, RECORD_DOES_START, 2);

    cr_expect_neq(a, b);
    cr_expect_neq(a, record_sum_number(0, RECORD_DOES_SIGNAL, 1));
    cr_expect_neq(record_sum_number(a, RECORD_DOES_START, 2), record_sum_number(b, RECORD_DOES_START, 1), "the order counts");
}
