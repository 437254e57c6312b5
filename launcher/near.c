#include "launcher/near.h"

#include <ctype.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>

enum { NEAR_LEN = 48 };

static int fold(char c)
{
    return c == '_' ? '-' : tolower((unsigned char) c);
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Insertions, deletions, replacements and swaps of neighbours; UINT_MAX when a word is too long to be a name.
 */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[3][NEAR_LEN + 1];
    size_t   i, j, la = strlen(a), lb = strlen(b);

    if (la > NEAR_LEN || lb > NEAR_LEN)
        return UINT_MAX;
    for (j = 0; j <= lb; j++)
        row[0][j] = (unsigned) j;
    for (i = 1; i <= la; i++) {
        unsigned *now = row[i % 3], *before = row[(i - 1) % 3], *earlier = row[(i + 1) % 3];

        now[0] = (unsigned) i;
        for (j = 1; j <= lb; j++) {
            unsigned cost = fold(a[i - 1]) != fold(b[j - 1]);

            now[j] = least(before[j - 1] + cost, least(before[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) && fold(a[i - 2]) == fold(b[j - 1]))
                now[j] = least(now[j], earlier[j - 2] + 1);
        }
    }
    return row[la % 3][lb];
}

void near_start(struct near *n, const char *word)
{
    n->word = word;
    n->best = NULL;
    n->distance = least((unsigned) strlen(word) / 3 + 1, 4); /* one more than is still near: < decides */
}

void near_try(struct near *n, const char *candidate)
{
    unsigned d = distance(n->word, candidate);

    if (d < n->distance) {
        n->distance = d;
        n->best = candidate;
    }
}
