/* chat_render - renders chat templates for comparison with other renderers:
 * a JSON array of {"template", "context"} on stdin, one of {"text"} or {"error"}
 * on stdout.
 */
#include "model/jinja.h"

#include <stdio.h>
#include <string.h>

#define FIXED_NOW 1767225600    /* 2026-01-01 00:00 UTC, as the other side has it */

static json_t *render(const json_t *item)
{
    struct error err = { 0 };
    struct buf out;
    struct jinja_template *template = NULL;
    struct jinja_options options = jinja_default_options();
    const json_t *text = json_object_get(item, "template");
    buf_init(&out, options.max_output_bytes);
    options.now = FIXED_NOW;
    enum status status = jinja_compile(&template, json_string_value(text), json_string_length(text), &err);
    if (status == STATUS_OK)
        status = jinja_render(template, json_object_get(item, "context"), &options, &out, &err);
    const char *text_out = out.data == NULL ? "" : out.data;
    json_t *result = status == STATUS_OK ? json_pack("{s:s%}", "text", text_out, out.len)
                                         : json_pack("{s:s}", "error", err.text);
    jinja_destroy(template);
    buf_clear(&out);
    return result;
}

int main(void)
{
    json_error_t where;
    json_t *items = json_loadf(stdin, 0, &where), *results = json_array();
    if (!json_is_array(items)) {
        fprintf(stderr, "chat_render: stdin is no JSON array: %s\n", where.text);
        return 1;
    }
    for (size_t i = 0; i < json_array_size(items); i++)
        json_array_append_new(results, render(json_array_get(items, i)));
    json_dumpf(results, stdout, 0);
    json_decref(results);
    json_decref(items);
    return 0;
}
