/* fuzz_jinja - any text as a chat template: refused with a sentence, or rendered within its limits.
 *
 * The input is the template; the conversation is always the same and has every
 * kind of value.  The words of the language are in fuzz_jinja.dict (-dict=).
 */
#include "model/jinja.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OUTPUT 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char conversation[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"S\"},"
    " {\"role\": \"user\", \"content\": \"h\xc3\xa9llo 'x'\"},"
    " {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"a1\", \"function\":"
    " {\"name\": \"f\", \"arguments\": {\"k\": [1, 2.5, true, null]}}}]},"
    " {\"role\": \"tool\", \"content\": [{\"type\": \"text\", \"text\": \"<think>a</think>b\"}]}],"
    " \"tools\": [{\"type\": \"function\"}], \"add_generation_prompt\": true, \"bos_token\": \"<s>\","
    " \"n\": 3, \"f\": -1.5, \"none\": null, \"empty\": {}, \"s\": \" a,b,,c \\n\"}";

static void require(int fact)
{
    if (!fact)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct jinja_options options = {
        .max_output_bytes = MAX_OUTPUT, .max_memory_bytes = 8u << 20, .max_steps = 200000, .max_depth = 100,
    };
    struct jinja_template *template = NULL;
    struct error err = { 0 };
    struct buf out;
    json_t *context = json_loads(conversation, 0, NULL);
    require(context != NULL);
    buf_init(&out, MAX_OUTPUT);
    enum status status = jinja_compile(&template, (const char *)data, size, &err);
    if (status == STATUS_OK)
        status = jinja_render(template, context, &options, &out, &err);
    require(status == STATUS_OK || (err.code == status && out.len == 0));
    require(out.len <= MAX_OUTPUT);
    jinja_destroy(template);
    buf_clear(&out);
    json_decref(context);
    return 0;
}
