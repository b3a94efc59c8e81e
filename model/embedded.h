/* embedded.h - the files of the demo model, linked into the program.
 *
 * `latentd serve` without --model needs no file beside the binary: the build
 * copies models/demo-mlra-4/ into it (tools/embed).  A tree without that folder
 * builds an empty table.
 *
 * Threads: any.  Memory: none; the bytes are read-only and live as long as the
 * program.
 */
#ifndef MODEL_EMBEDDED_H
#define MODEL_EMBEDDED_H

#include <stddef.h>
#include <stdint.h>

/* The bytes of the file ("config.json", "model.safetensors", ..), aligned to 64
 * and followed by a zero byte that *len does not count.  NULL if there is no
 * such file; *len is then untouched. */
const unsigned char *embedded_file(const char *name, size_t *len);

/* How many files there are; 0: this build has no demo model. */
size_t embedded_count(void);

/* The table that tools/embed writes, ending in a row of zeros. */
struct embedded_row {
    const char *name;
    const unsigned char *bytes;
    uint64_t len;
};
extern const struct embedded_row embedded_rows[];

#endif
