#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/core/ranks.h"

enum { N_MAX = 40 };

struct set {
    struct ranks_node  n[N_MAX], *p[N_MAX], *scratch[N_MAX];
    struct ranks_sizes sizes;
};

static void init(struct set *s, uint32_t n)
{
    *s = (struct set) { 0 };
    for (uint32_t i = 0; i < n; i++) {
        s->n[i] = (struct ranks_node) {
            .wish = RANKS_NONE, .previous = RANKS_NONE, .arrival = 100 + i, .nproc = 1,
            .group_rank = 99, .base_rank = 99, .base_role_rank = 99,
        };
        s->p[i] = &s->n[i];
    }
}

/* Group ranks of the nodes, in the order of the text: "w3" explicit rank 3, "p2" had rank 2, "n" a newcomer;
 * a letter behind: of that group. */
static void check_max(const char *nodes, uint32_t max, const char *want)
{
    struct set  s;
    uint32_t    n = 0;
    char        got[256] = "";
    const char *at;

    init(&s, N_MAX);
    for (at = nodes; *at; at++) {
        if (*at == 'w')
            s.n[n].wish = (int32_t) strtol(at + 1, NULL, 10);
        if (*at == 'p')
            s.n[n].previous = (int32_t) strtol(at + 1, NULL, 10);
        if (*at >= 'A' && *at <= 'Z')
            s.n[n].group = 100000u - (uint64_t) *at; /* their numbers say nothing */
        if (*at == ' ' || at[1] == '\0')
            n++;
    }
    ranks_choose(s.p, n, max);
    ranks_order(s.p, n < max ? n : max, max, s.scratch);
    for (uint32_t i = 0; i < n; i++) {
        size_t len = strlen(got);

        if (s.n[i].group_rank == 99)
            snprintf(got + len, sizeof got - len, "%s-", i ? " " : "");
        else
            snprintf(got + len, sizeof got - len, "%s%u", i ? " " : "", s.n[i].group_rank);
    }
    cr_expect_str_eq(got, want, "%s, max %u: %s, not %s", nodes, max, got, want);
}

static void check(const char *nodes, const char *want)
{
    check_max(nodes, N_MAX, want);
}

Test(ranks, arrival_decides_when_nothing_else_does)
{
    check("n n n", "0 1 2");
    check("", "");
}

Test(ranks, an_explicit_rank_is_the_rank_when_nobody_is_missing)
{
    check_max("w2 w0 w1", 3, "2 0 1");
    check_max("n w0 n", 3, "1 0 2");
    check_max("n w2 n", 3, "0 2 1");
}

Test(ranks, an_explicit_rank_is_an_order_once_nodes_are_missing)
{
    check_max("w3 w1 w2", 4, "2 0 1");
    check_max("w3 n", 4, "1 0");
    check_max("w0 w3 w2", 4, "0 2 1");
}

Test(ranks, survivors_keep_their_ranks_and_a_newcomer_takes_the_hole)
{
    check("p0 p2 n", "0 2 1");
    check("p1 p2 n", "1 2 0");
    check("p3 p0 n p1", "3 0 2 1");
    check("p0 p1 n n", "0 1 2 3");
}

Test(ranks, without_a_newcomer_ranks_close_up_in_the_old_order)
{
    check("p0 p2 p3 p4", "0 1 2 3");
    check("p4 p2", "1 0");
    check("p1 p2", "0 1");
}

Test(ranks, no_more_ranks_change_than_must)
{
    check("p0 p2 p4 n", "0 2 3 1"); /* 1 and 3 are lost, one came: only 4 moves */
    check("p0 p5 p6 n n", "0 3 4 1 2");
}

Test(ranks, an_explicit_rank_wins_over_an_old_one)
{
    check_max("p0 p1 w0", 3, "1 2 0");
    check_max("p0 p1 p2 w1", 4, "0 2 3 1");
}

Test(ranks, newcomers_of_a_group_are_neighbours_in_the_order_of_their_first)
{
    check_max("w0A w1B w2A", 3, "0 2 1");
    check_max("w2A w1B w0A", 3, "1 2 0");
    check_max("w3B w2A w1B w0A", 4, "3 1 2 0");
    check_max("nB nA nB nA", 4, "0 2 1 3");
    check_max("w0A w1 w2A w3C", 4, "0 1 2 3"); /* who names no group is bound to nothing but its explicit rank */
}

Test(ranks, a_group_moves_nobody_who_was_there_and_counts_for_who_comes)
{
    check_max("p0A p1A p2B", 3, "0 1 2");
    check_max("p0A w1B p2B", 3, "0 1 2");
    check_max("p0A w1C w3B w2C", 4, "0 1 3 2");
    check_max("w4A p1B w3A p0B w2C", 5, "4 1 3 0 2");
}

Test(ranks, with_more_nodes_than_places_those_who_were_there_stay)
{
    check_max("n p1 p0", 2, "- 1 0");
    check_max("n n p2 n", 3, "0 1 2 -");
    check_max("n w0 n", 2, "1 0 -");
}

Test(ranks, a_rank_beyond_the_places_is_a_spares)
{
    check_max("w2 w0 w1", 2, "- 0 1");
    check_max("w2 p1", 2, "0 1"); /* it takes the hole: the survivor does not move */
    check_max("w3 w2 p0", 2, "- 1 0");
    check_max("w2 n p0", 2, "- 1 0");
}

static void count(struct set *s, const uint32_t (*nodes)[2], uint32_t n)
{
    init(s, n);
    for (uint32_t i = 0; i < n; i++) {
        s->n[i].role = nodes[i][0];
        s->n[i].nproc = nodes[i][1];
    }
    ranks_order(s->p, n, n, s->scratch);
    ranks_count(s->p, n, &s->sizes);
}

Test(ranks, workers_are_numbered_by_node_and_within_their_role)
{
    static const uint32_t nodes[5][2] = { { 0, 4 }, { 1, 1 }, { 1, 2 }, { 1, 3 }, { 0, 5 } };
    static const uint32_t base[5] = { 0, 4, 5, 7, 10 }, role[5] = { 0, 0, 1, 3, 4 };
    struct set            s;

    count(&s, nodes, 5);
    for (uint32_t i = 0; i < 5; i++) {
        cr_expect_eq(s.n[i].base_rank, base[i]);
        cr_expect_eq(s.n[i].base_role_rank, role[i]);
    }
    cr_expect_eq(s.sizes.world, 15);
    cr_expect_eq(s.sizes.role[0], 9);
    cr_expect_eq(s.sizes.role[1], 6);
}

Test(ranks, seven_agents_of_three_roles)
{
    static const uint32_t nodes[7][2] = { { 0, 8 }, { 1, 1 }, { 1, 2 }, { 1, 3 }, { 1, 4 }, { 2, 5 }, { 2, 2 } };
    struct set            s;

    count(&s, nodes, 7);
    cr_expect_eq(s.sizes.world, 25);
    cr_expect_eq(s.sizes.role[0], 8);
    cr_expect_eq(s.sizes.role[1], 10);
    cr_expect_eq(s.sizes.role[2], 7);
    cr_expect_eq(s.n[6].base_rank, 23);
    cr_expect_eq(s.n[6].base_role_rank, 5);
    cr_expect_eq(s.n[4].base_role_rank, 6);
}

static uint64_t rnd(uint64_t *state, uint64_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % n;
}

static void check_properties(const struct set *s, uint32_t n, uint32_t max, uint32_t world)
{
    uint32_t n_explicit = 0, n_lowest = UINT32_MAX;

    for (uint32_t i = 0; i < world; i++) {
        const struct ranks_node *a = s->p[i];

        cr_assert_eq(a->group_rank, i);
        n_explicit += a->wish != RANKS_NONE && (uint32_t) a->wish < max;
        for (uint32_t j = i + 1; j < world; j++) {
            const struct ranks_node *b = s->p[j];
            int is_a = a->wish != RANKS_NONE && (uint32_t) a->wish < max;
            int is_b = b->wish != RANKS_NONE && (uint32_t) b->wish < max;

            cr_assert(!(is_a && is_b && a->wish > b->wish));
            if (!is_a && !is_b && a->previous != RANKS_NONE && b->previous != RANKS_NONE)
                cr_assert_lt(a->previous, b->previous);
        }
        if (a->previous != RANKS_NONE && a->previous < (int32_t) n_lowest)
            n_lowest = (uint32_t) a->previous;
    }
    for (uint32_t i = 0; i < world && n_explicit == 0; i++) {
        const struct ranks_node *a = s->p[i];

        cr_assert(a->previous != 0 || i == 0, "rank 0 moved");
        cr_assert(a->previous == RANKS_NONE || (int32_t) i <= a->previous, "a rank went up");
    }
    for (uint32_t i = world; i < n; i++)
        cr_assert_eq(s->p[i]->group_rank, 99);
}

Test(ranks, properties_hold_for_any_set_of_nodes)
{
    uint64_t seed = 1;

    for (uint32_t game = 0; game < 20000; game++) {
        uint32_t   n = 1 + (uint32_t) rnd(&seed, 12), max = 1 + (uint32_t) rnd(&seed, 12), world = n < max ? n : max;
        uint32_t   wishes = 0, ranks = 0;
        struct set s;

        init(&s, n);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t w = (uint32_t) rnd(&seed, 16), p = (uint32_t) rnd(&seed, 16);

            if (rnd(&seed, 3) == 0 && !(wishes >> w & 1) && (game & 1)) {
                s.n[i].wish = (int32_t) w;
                wishes |= 1u << w;
            }
            if (rnd(&seed, 3) > 0 && p < max && !(ranks >> p & 1)) {
                s.n[i].previous = (int32_t) p;
                ranks |= 1u << p;
            }
        }
        ranks_choose(s.p, n, max);
        ranks_order(s.p, world, max, s.scratch);
        check_properties(&s, n, max, world);
    }
}

/* All order-preserving placements of the survivors are tried: none moves fewer of them. */
static uint32_t fewest(const uint32_t *old, uint32_t n_old, uint32_t from, uint32_t n)
{
    uint32_t best = UINT32_MAX;

    if (n_old == 0)
        return 0;
    for (uint32_t at = from; at + n_old <= n; at++) {
        uint32_t rest = fewest(old + 1, n_old - 1, at + 1, n), all = rest + (at != old[0]);

        best = all < best ? all : best;
    }
    return best;
}

Test(ranks, the_number_of_moves_is_the_smallest_there_is)
{
    uint64_t seed = 7;

    for (uint32_t game = 0; game < 3000; game++) {
        uint32_t   n = 1 + (uint32_t) rnd(&seed, 8), n_old = 0, moved = 0, old[16];
        struct set s;

        init(&s, n);
        for (uint32_t r = 0; r < 12 && n_old < n; r++)
            if (rnd(&seed, 2)) {
                s.n[n_old].previous = (int32_t) r;
                old[n_old++] = r;
            }
        ranks_order(s.p, n, N_MAX, s.scratch);
        for (uint32_t i = 0; i < n_old; i++)
            moved += s.n[i].group_rank != old[i];
        cr_assert_eq(moved, fewest(old, n_old, 0, n));
    }
}
