/* fuzz_regex - any bytes as a pattern: refused with a sentence, or compiled and run, also with little
 * memory. */
#include "model/byte_machine.h"
#include "model/regex.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The rest of the input as text; the states are forgotten whenever there is no room. */
static void run(const struct byte_program *program, uint32_t max_states, const uint8_t *text, size_t len)
{
    struct byte_machine *m;
    if (byte_machine_create(&m, program, 64, max_states, NULL) != STATUS_OK)
        return;
    uint32_t state = byte_machine_first(m);
    for (size_t i = 0; i < len && state != BYTE_MACHINE_DEAD; i++) {
        enum status status = byte_machine_step(m, state, text[i], &state);
        if (status == STATUS_BUSY) {
            byte_machine_collect(m, &state, 1);
            status = byte_machine_step(m, state, text[i], &state);
        }
        if (status != STATUS_OK)
            break;
        if (byte_machine_is_finished(m, state) && !byte_machine_is_accepting(m, state))
            abort();
    }
    byte_machine_destroy(m);
}

/* Byte 0: options.  Byte 1: length of the pattern in 4-byte steps.  Then the pattern, then the text. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t len = (size_t)data[1] * 4 < size - 2 ? (size_t)data[1] * 4 : size - 2;
    struct regex_source source = { .pattern = (const char *)data + 2, .len = len,
                                   .spelling = data[0] & 1 ? CHARS_JSON : CHARS_UTF8,
                                   .is_search = data[0] >> 1 & 1 };
    struct byte_program program;
    struct error err = { .code = STATUS_OK };
    uint32_t entry = 0;
    byte_program_init(&program, 20000);
    uint32_t end = byte_program_return(&program);
    enum status status = regex_emit(&source, &program, end, &entry, &err);
    byte_program_rule_set(&program, 0, entry);
    if (status == STATUS_OK)
        status = byte_program_seal(&program, 64, &err);
    if (status != STATUS_OK && (err.code != status || memchr(err.text, 0, sizeof err.text) == NULL))
        abort();
    if (status == STATUS_OK)
        run(&program, data[0] & 4 ? 1024 : 8, data + 2 + len, size - 2 - len);
    byte_program_clear(&program);
    return 0;
}
