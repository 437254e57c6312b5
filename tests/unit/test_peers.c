#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/peers.h"

static struct rdzv_about about(int32_t wish, const char *role)
{
    struct rdzv_about a = { .nproc = 1, .wish = wish };

    (void) snprintf(a.role, sizeof a.role, "%s", role);
    return a;
}

static struct peer *add(struct peers *t, uint64_t incarnation, int32_t wish, const char *role)
{
    struct rdzv_about a = about(wish, role);

    return peers_add(t, incarnation, incarnation, &a);
}

Test(peers, are_found_by_incarnation_and_by_rank)
{
    struct peers  t;
    struct cc_err err;

    cr_assert_eq(peers_init(&t, 3, &err), 0);
    cr_expect_null(peers_find(&t, 7));
    (void) add(&t, 7, 2, "a");
    (void) add(&t, 8, -1, "a");
    cr_expect_eq(peers_find(&t, 7)->incarnation, 7);
    cr_expect_eq(peers_holder(&t, 2)->incarnation, 7);
    cr_expect_null(peers_holder(&t, 0));
    cr_expect_null(peers_holder(&t, 3));
    cr_expect_null(peers_holder(&t, -1));
    peers_remove(&t, peers_find(&t, 7));
    cr_expect_null(peers_find(&t, 7));
    cr_expect_null(peers_holder(&t, 2));
    cr_expect_eq(t.n, 1);
    peers_free(&t);
}

Test(peers, stand_in_the_order_in_which_they_were_heard)
{
    struct peers  t;
    struct cc_err err;

    cr_assert_eq(peers_init(&t, 3, &err), 0);
    for (uint64_t i = 1; i <= 3; i++)
        (void) add(&t, i, -1, "a");
    cr_expect_eq(peers_first(&t, PEER_HEARD)->incarnation, 1);
    peers_heard(&t, peers_find(&t, 1), 10);
    cr_expect_eq(peers_first(&t, PEER_HEARD)->incarnation, 2);
    peers_broken(&t, peers_find(&t, 2), 11);
    cr_expect_eq(peers_first(&t, PEER_HEARD)->incarnation, 3);
    cr_expect_eq(peers_first(&t, PEER_DOWN)->incarnation, 2);
    peers_heard(&t, peers_find(&t, 2), 12);
    cr_expect_null(peers_first(&t, PEER_DOWN));
    cr_expect_null(peers_first(&t, PEER_FREE));
    peers_free(&t);
}

Test(peers, a_role_lives_as_long_as_a_node_has_it)
{
    struct peers  t;
    struct cc_err err;
    char          name[16];

    cr_assert_eq(peers_init(&t, RANKS_MAX_ROLES + 1, &err), 0);
    for (unsigned i = 0; i < RANKS_MAX_ROLES; i++) {
        (void) snprintf(name, sizeof name, "role%u", i);
        (void) add(&t, 100 + i, -1, name);
    }
    cr_expect_eq(peers_role(&t, "role5"), 5);
    cr_expect_eq(peers_role(&t, "one more"), PEERS_NONE);
    peers_remove(&t, peers_find(&t, 105));
    cr_expect_eq(peers_role(&t, "one more"), 5);
    peers_free(&t);
}

/* Against a plain list: the hash table closes its gaps well. */
Test(peers, any_sequence_of_coming_and_going_is_remembered)
{
    enum { CAP = 20, IDS = 60 };
    struct peers  t;
    struct cc_err err;
    bool          is_there[IDS] = { false };
    uint32_t      n = 0;
    uint64_t      x = 1;

    cr_assert_eq(peers_init(&t, CAP, &err), 0);
    for (unsigned step = 0; step < 50000; step++) {
        unsigned id;
        uint32_t count = 0;

        x = x * 6364136223846793005u + 1442695040888963407u;
        id = (unsigned) (x >> 40) % IDS;
        if (is_there[id])
            peers_remove(&t, peers_find(&t, id));
        else if (n < CAP)
            (void) add(&t, id, -1, "r");
        else
            continue;
        is_there[id] = !is_there[id];
        n += is_there[id] ? 1 : -1u;
        for (unsigned i = 0; i < IDS; i++)
            cr_assert_eq(peers_find(&t, i) != NULL, is_there[i]);
        for (struct peer *p = peers_next(&t, NULL); p; p = peers_next(&t, p))
            count++;
        cr_assert_eq(count, n);
        cr_assert_eq(t.n, n);
    }
    peers_free(&t);
}
