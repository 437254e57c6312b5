#include "agent/core/ranks.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Sort key of a node: a class, then a number within it, then arrival. A total order, so any sort gives the same. */
struct key {
    unsigned class;
    uint64_t number;
};

static int compare_keys(struct key a, struct key b)
{
    if (a.class != b.class)
        return a.class < b.class ? -1 : 1;
    return a.number == b.number ? 0 : a.number < b.number ? -1 : 1;
}

/* Heap sort: no allocation, no recursion, and n log n for any input; qsort() promises none of these. */
static void sift(struct ranks_node **nodes, uint32_t from, uint32_t n, uint32_t max_nodes,
                 struct key (*key)(const struct ranks_node *, uint32_t))
{
    struct ranks_node *moved = nodes[from];
    struct key         k = key(moved, max_nodes);
    uint32_t           child;

    while ((child = 2 * from + 1) < n) {
        if (child + 1 < n && compare_keys(key(nodes[child], max_nodes), key(nodes[child + 1], max_nodes)) < 0)
            child++;
        if (compare_keys(key(nodes[child], max_nodes), k) <= 0)
            break;
        nodes[from] = nodes[child];
        from = child;
    }
    nodes[from] = moved;
}

static void sort(struct ranks_node **nodes, uint32_t n, uint32_t max_nodes,
                 struct key (*key)(const struct ranks_node *, uint32_t))
{
    uint32_t i;

    for (i = n / 2; i-- > 0;)
        sift(nodes, i, n, max_nodes, key);
    for (i = n; i-- > 1;) {
        struct ranks_node *last = nodes[i];

        nodes[i] = nodes[0];
        nodes[0] = last;
        sift(nodes, 0, i, max_nodes, key);
    }
}

static bool is_explicit(const struct ranks_node *n, uint32_t max_nodes)
{
    return n->wish != RANKS_NONE && (uint32_t) n->wish < max_nodes;
}

static struct key newcomer(const struct ranks_node *n, unsigned class)
{
    if (n->wish == RANKS_NONE)
        return (struct key) { class, n->arrival };
    return (struct key) { class + 1, (uint64_t) n->wish }; /* a spare's */
}

static struct key choice_key(const struct ranks_node *n, uint32_t max_nodes)
{
    if (n->previous != RANKS_NONE)
        return (struct key) { 0, (uint64_t) n->previous };
    if (is_explicit(n, max_nodes))
        return (struct key) { 1, (uint64_t) n->wish };
    return newcomer(n, 2);
}

static bool is_fixed(const struct ranks_node *n, uint32_t max_nodes)
{
    return is_explicit(n, max_nodes) && n->group == 0;
}

static struct key order_key(const struct ranks_node *n, uint32_t max_nodes)
{
    if (is_fixed(n, max_nodes))
        return (struct key) { 0, (uint64_t) n->wish };
    if (n->previous != RANKS_NONE)
        return (struct key) { 1, (uint64_t) n->previous };
    if (n->group != 0)
        return (struct key) { 2, (uint64_t) n->lead << 32 | n->group_rank };
    return newcomer(n, 3);
}

static struct key group_key(const struct ranks_node *n, uint32_t max_nodes)
{
    (void) max_nodes;
    return (struct key) { 0, n->group };
}

/* By explicit rank and arrival at first (group_rank), which decides within a group; then every group is where the first of
 * its newcomers is (lead). */
static void find_leads(struct ranks_node **nodes, uint32_t n, uint32_t max_nodes)
{
    uint32_t i, k, end;

    sort(nodes, n, max_nodes, choice_key);
    for (i = 0; i < n; i++)
        nodes[i]->group_rank = i;
    sort(nodes, n, max_nodes, group_key);
    for (i = 0; i < n; i = end) {
        uint32_t lead = UINT32_MAX;

        for (end = i; end < n && nodes[end]->group == nodes[i]->group; end++)
            if (nodes[end]->previous == RANKS_NONE && nodes[end]->group_rank < lead)
                lead = nodes[end]->group_rank;
        for (k = i; k < end; k++)
            nodes[k]->lead = lead;
    }
}

static struct key rank_key(const struct ranks_node *n, uint32_t max_nodes)
{
    (void) max_nodes;
    return (struct key) { 0, n->group_rank };
}

void ranks_choose(struct ranks_node **nodes, uint32_t n, uint32_t max_nodes)
{
    sort(nodes, n, max_nodes, choice_key);
}

static uint32_t min32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Explicit ranks rise, and so does the last place that leaves room for those above: their minimum rises too. */
static uint32_t place_explicit(struct ranks_node **nodes, uint32_t n, uint32_t max_nodes, struct ranks_node **places)
{
    uint32_t n_explicit = 0, i;

    while (n_explicit < n && is_fixed(nodes[n_explicit], max_nodes))
        n_explicit++;
    for (i = 0; i < n_explicit; i++) {
        uint32_t at = min32((uint32_t) nodes[i]->wish, n - n_explicit + i);

        assert(!places[at]);
        places[at] = nodes[i];
    }
    return n_explicit;
}

/* The next free place, which must exist. */
static uint32_t next_free(struct ranks_node *const *places, uint32_t n, uint32_t from)
{
    while (from < n && places[from])
        from++;
    assert(from < n);
    return from;
}

/* Each takes its old place, or the next free one above it, or moves down as far as those behind it need room:
 * `n_left` counts the free places from `at` on, and must never fall below the number of survivors to come. */
static void place_survivors(struct ranks_node **nodes, uint32_t n_survivors, struct ranks_node **places, uint32_t n,
                            uint32_t n_free)
{
    uint32_t at = 0, n_left = n_free, i;

    for (i = 0; i < n_survivors; i++) {
        at = next_free(places, n, at);
        while ((uint32_t) nodes[i]->previous > at && n_left > n_survivors - i) {
            at = next_free(places, n, at + 1);
            n_left--;
        }
        places[at++] = nodes[i];
        n_left--;
    }
}

void ranks_order(struct ranks_node **nodes, uint32_t n, uint32_t max_nodes, struct ranks_node **scratch)
{
    uint32_t n_explicit, n_survivors = 0, at = 0, i;

    if (n == 0)
        return;
    find_leads(nodes, n, max_nodes);
    sort(nodes, n, max_nodes, order_key);
    memset(scratch, 0, n * sizeof(scratch[0]));
    n_explicit = place_explicit(nodes, n, max_nodes, scratch);
    while (n_explicit + n_survivors < n && nodes[n_explicit + n_survivors]->previous != RANKS_NONE)
        n_survivors++;
    place_survivors(nodes + n_explicit, n_survivors, scratch, n, n - n_explicit);
    for (i = n_explicit + n_survivors; i < n; i++) {
        at = next_free(scratch, n, at);
        scratch[at] = nodes[i];
    }
    for (i = 0; i < n; i++)
        scratch[i]->group_rank = i;
    sort(nodes, n, max_nodes, rank_key);
}

void ranks_count(struct ranks_node *const *nodes, uint32_t n, struct ranks_sizes *ret)
{
    uint32_t i;

    *ret = (struct ranks_sizes) { 0 };
    for (i = 0; i < n; i++) {
        struct ranks_node *node = nodes[i];

        assert(node->group_rank == i && node->role < RANKS_MAX_ROLES);
        node->base_rank = (uint32_t) ret->world;
        node->base_role_rank = (uint32_t) ret->role[node->role];
        ret->world += node->nproc;
        ret->role[node->role] += node->nproc;
        assert(ret->world <= UINT32_MAX);
    }
}
