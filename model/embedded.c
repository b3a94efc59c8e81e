#include "model/embedded.h"

#include <string.h>

const unsigned char *embedded_file(const char *name, size_t *len)
{
    for (const struct embedded_row *row = embedded_rows; row->name != NULL; row++) {
        if (strcmp(row->name, name) == 0) {
            *len = row->len;
            return row->bytes;
        }
    }
    return NULL;
}

size_t embedded_count(void)
{
    size_t n = 0;
    while (embedded_rows[n].name != NULL)
        n++;
    return n;
}
