/* tile_instructions.h - tile registers (AMX), for the files that are built for them.
 *
 * A tile is 16 rows of 64 bytes.  c += a b, where a is 16 rows of 32 bf16 (or 64
 * int8) numbers, b is 16 pairs (quads) of them for 16 columns of c.
 *
 * In assembler, with all of memory as an operand: gcc 12's intrinsics do not say
 * that they read and write it, and stores before them were seen to vanish.
 */
#ifndef ATTENTION_TILE_INSTRUCTIONS_H
#define ATTENTION_TILE_INSTRUCTIONS_H

#include <stddef.h>
#include <stdint.h>

#define TILE_LOAD(tile, from, stride)                                                          \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(from), "r"((size_t)(stride)) : "memory")
/* Of what is used once: not into the nearest cache, where other tiles are to stay. */
#define TILE_LOAD_ONCE(tile, from, stride)                                                     \
    __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm" #tile ::"r"(from), "r"((size_t)(stride)) : "memory")
#define TILE_STORE(tile, to, stride)                                                           \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(to), "r"((size_t)(stride)) : "memory")
#define TILE_ZERO(tile) __asm__ volatile("tilezero %tmm" #tile)
#define TILE_DOT_BF16(c, a, b) __asm__ volatile("tdpbf16ps %tmm" #b ", %tmm" #a ", %tmm" #c)
#define TILE_DOT_INT8(c, a, b) __asm__ volatile("tdpbssd %tmm" #b ", %tmm" #a ", %tmm" #c)

enum { TILE_LINE = 64, TILE_BYTES = 16 * TILE_LINE, TILE_FLOATS = TILE_BYTES / 4 };

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* All eight whole, but the first six (sums and a) of `rows` rows. */
static inline void tiles_open(int rows)
{
    struct tile_config c = { .palette = 1 };
    for (int t = 0; t < 8; t++) {
        c.row_bytes[t] = TILE_LINE;
        c.rows[t] = (uint8_t)(t < 6 ? rows : 16);
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(c));
}

/* Empty registers need not be saved when threads switch. */
static inline void tiles_close(void)
{
    __asm__ volatile("tilerelease");
}

#endif
