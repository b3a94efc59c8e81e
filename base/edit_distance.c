#include "base/edit_distance.h"

#include <stdint.h>
#include <string.h>

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Optimal string alignment: the row of a[0..i) needs the two rows above it. */
size_t edit_distance(const char *a, const char *b)
{
    size_t n_a = strlen(a), n_b = strlen(b);
    if (n_a > EDIT_DISTANCE_MAX_TEXT || n_b > EDIT_DISTANCE_MAX_TEXT)
        return SIZE_MAX;
    size_t rows[3][EDIT_DISTANCE_MAX_TEXT + 1];
    for (size_t j = 0; j <= n_b; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= n_a; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            size_t replaced = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = smaller(replaced, smaller(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = smaller(row[j], two_above[j - 2] + 1);
        }
    }
    return rows[n_a % 3][n_b];
}

int edit_distance_is_near(const char *got, const char *name)
{
    size_t allowed = (strlen(name) + 2) / 4;
    return edit_distance(got, name) <= (allowed > 0 ? allowed : 1);
}
