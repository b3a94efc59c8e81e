/* test_tokenizer_file - a tokenizer.json that lies or asks for too much is refused with its reason. */
#include "model/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* JSON written with ' for ", so that it can be read in C. */
static const char *with_quotes(char *out, const char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0; i <= n; i++)
        out[i] = text[i] == '\'' ? '"' : text[i];
    return out;
}

static enum status load(struct tokenizer **t, const char *text, struct error *err)
{
    char json[1024];
    const struct tokenizer_files files = { .json = with_quotes(json, text), .json_len = strlen(text) };
    return tokenizer_load_memory(t, &files, err);
}

#define MODEL(vocab, merges) "'model':{'type':'BPE','vocab':" vocab ",'merges':" merges "}"
#define BYTES_OUT "'decoder':{'type':'ByteLevel'}"
#define SMALL MODEL("{'a':0,'b':1,'ab':2}", "['a b']") "," BYTES_OUT

static const struct {
    const char *json, *word;
    enum status code;
} lies[] = {
    { "", "not valid JSON", STATUS_BAD_MODEL },
    { "[]", "object", STATUS_BAD_MODEL },
    { "{}", "model", STATUS_BAD_MODEL },
    { "{'model':7}", "model", STATUS_BAD_MODEL },
    { "{'model':{'type':'Unigram'}}", "Unigram", STATUS_UNSUPPORTED },
    { "{" MODEL("{}", "[]") "}", "vocabulary", STATUS_BAD_MODEL },
    { "{" MODEL("[]", "[]") "}", "vocab", STATUS_BAD_MODEL },
    { "{" MODEL("{'a':-1}", "[]") "}", "'a'", STATUS_BAD_MODEL },
    { "{" MODEL("{'a':'0'}", "[]") "}", "'a'", STATUS_BAD_MODEL },
    { "{" MODEL("{'a':0.5}", "[]") "}", "'a'", STATUS_BAD_MODEL },
    { "{" MODEL("{'a':4194304}", "[]") "}", "'a'", STATUS_BAD_MODEL },
    { "{" MODEL("{'a':1,'b':1}", "[]") "}", "same id 1", STATUS_BAD_MODEL },
    { "{" MODEL("{'a':1}", "{}") "}", "merges", STATUS_BAD_MODEL },
    { "{" MODEL("{'a':1}", "[7]") "}", "merge 0", STATUS_BAD_MODEL },
    { "{" MODEL("{'a':1}", "['a']") "}", "merge 0", STATUS_BAD_MODEL },
    { "{" MODEL("{'a':1}", "['a b c']") "}", "merge 0", STATUS_BAD_MODEL },
    { "{" MODEL("{'a':1}", "[['a']]") "}", "merge 0", STATUS_BAD_MODEL },
    { "{" MODEL("{'a':1}", "[['a',1]]") "}", "merge 0", STATUS_BAD_MODEL },
    { "{" MODEL("{'a':1}", "[['a','b']]") "}", "not in the vocabulary", STATUS_BAD_MODEL },
    { "{" MODEL("{'a':1,'b':2}", "[['a','b']]") "}", "not in the vocabulary", STATUS_BAD_MODEL },
    { "{'model':{'vocab':{'a':1},'unk_token':'x'}}", "unk_token", STATUS_BAD_MODEL },
    { "{'model':{'vocab':{'a':1},'dropout':0.1}}", "dropout", STATUS_UNSUPPORTED },
    { "{'model':{'vocab':{'a':1},'end_of_word_suffix':'</w>'}}", "suffix", STATUS_UNSUPPORTED },
    { "{" MODEL("{'a':1}", "[]") "}", "decoder", STATUS_UNSUPPORTED },
    { "{" MODEL("{'a':1}", "[]") ",'decoder':{'type':'WordPiece'}}", "WordPiece",
      STATUS_UNSUPPORTED },
    { "{" MODEL("{'a':1}", "[]") ",'decoder':{'type':'Sequence','decoders':[{'type':'ByteLevel'},"
      "{'type':'Replace','pattern':{'Regex':'.'},'content':''}]}}", "behind ByteLevel", STATUS_UNSUPPORTED },
    { "{" MODEL("{'a':1}", "[]") ",'decoder':{'type':'Sequence','decoders':[{'type':'Fuse'},"
      "{'type':'Strip','content':' ','start':0,'stop':1}]}}", "Fuse", STATUS_UNSUPPORTED },
    { "{" SMALL ",'normalizer':{'type':'Precompiled'}}", "Precompiled", STATUS_UNSUPPORTED },
    { "{" SMALL ",'normalizer':[]}", "normalizer", STATUS_BAD_MODEL },
    { "{" SMALL ",'normalizer':{'type':'Replace','pattern':{'Regex':'('},'content':''}}",
      "pattern",
      STATUS_BAD_MODEL },
    { "{" SMALL ",'pre_tokenizer':{'type':'BertPreTokenizer'}}", "BertPreTokenizer",
      STATUS_UNSUPPORTED },
    { "{" SMALL ",'pre_tokenizer':{'type':'Split'}}", "pattern", STATUS_BAD_MODEL },
    { "{" SMALL ",'pre_tokenizer':{'type':'Split','pattern':{'Regex':'a'},'behavior':'X'}}",
      "behavior",
      STATUS_BAD_MODEL },
    { "{" SMALL ",'pre_tokenizer':{'type':'Split','pattern':{'Regex':'[a[b]]'}}}",
      "class in a class",
      STATUS_UNSUPPORTED },
    { "{" SMALL ",'pre_tokenizer':{'type':'Split','pattern':{'Regex':'[a'}}}", "does not end",
      STATUS_BAD_MODEL },
    { "{" SMALL ",'pre_tokenizer':{'type':'Split','pattern':{'Regex':'a{1,3}+'}}}", "interval",
      STATUS_UNSUPPORTED },
    { "{" SMALL ",'pre_tokenizer':{'type':'Sequence','pretokenizers':[{'type':'ByteLevel'},"
      "{'type':'Digits'}]}}", "must be the last", STATUS_UNSUPPORTED },
    { "{" SMALL ",'pre_tokenizer':{'type':'Metaspace','replacement':'__'}}", "one character",
      STATUS_BAD_MODEL },
    { "{" SMALL ",'post_processor':{'type':'BertProcessing'}}", "BertProcessing", STATUS_UNSUPPORTED },
    { "{" SMALL ",'post_processor':{'type':'TemplateProcessing','single':[]}}", "no Sequence",
      STATUS_BAD_MODEL },
    { "{" SMALL ",'post_processor':{'type':'TemplateProcessing','single':[{'SpecialToken':{'id':'x'}}]}}",
      "'x'",
      STATUS_BAD_MODEL },
    { "{" SMALL ",'post_processor':{'type':'TemplateProcessing','special_tokens':{'x':{'ids':[-1]}},"
      "'single':[{'SpecialToken':{'id':'x'}}]}}", "'x'", STATUS_BAD_MODEL },
    { "{" SMALL ",'added_tokens':{}}", "added_tokens", STATUS_BAD_MODEL },
    { "{" SMALL ",'added_tokens':[7]}", "object", STATUS_BAD_MODEL },
    { "{" SMALL ",'added_tokens':[{'id':3}]}", "content", STATUS_BAD_MODEL },
    { "{" SMALL ",'added_tokens':[{'content':'x'}]}", "'id'", STATUS_BAD_MODEL },
    { "{" SMALL ",'added_tokens':[{'id':-3,'content':'x'}]}", "'id'", STATUS_BAD_MODEL },
    { "{" SMALL ",'added_tokens':[{'id':3,'content':'x'},{'id':3,'content':'y'}]}", "twice",
      STATUS_BAD_MODEL },
    { "{" SMALL ",'added_tokens':[{'id':3,'content':'x'},{'id':4,'content':'x'}]}", "twice",
      STATUS_BAD_MODEL },
    { "{" SMALL ",'added_tokens':[{'id':1,'content':'x'}]}", "vocabulary", STATUS_BAD_MODEL },
    { "{" SMALL ",'added_tokens':[{'id':3,'content':'a'}]}", "vocabulary", STATUS_BAD_MODEL },
    { "{" SMALL ",'added_tokens':[{'id':3,'content':'x','special':1}]}", "special",
      STATUS_BAD_MODEL },
};

static void every_lie_of_a_file_is_refused_with_its_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct tokenizer *t = NULL;
        struct error err = { 0 };
        enum status s = load(&t, lies[i].json, &err);
        if (s != lies[i].code || strstr(err.text, lies[i].word) == NULL)
            fail_msg("%s: expected %s about '%s', got %s: %s", lies[i].json, status_name(lies[i].code),
                     lies[i].word,
                     status_name(s), err.text);
        assert_null(t);
    }
}

static void byte_tokens_that_are_no_bytes_are_text(void **state)
{
    (void)state;
    struct tokenizer *t = NULL;
    struct error err;
    assert_int_equal(load(&t, "{" MODEL("{'<0x41>':0,'<0xZZ>':1,'<0x-1>':2,'<0x4>':3,'<0xe6>':4}", "[]")
                          ",'decoder':{'type':'ByteFallback'}}", &err), STATUS_OK);
    size_t len;
    assert_string_equal(tokenizer_token_bytes(t, 0, &len), "A");
    assert_string_equal(tokenizer_token_bytes(t, 1, &len), "<0xZZ>");
    assert_string_equal(tokenizer_token_bytes(t, 2, &len), "<0x-1>");
    assert_string_equal(tokenizer_token_bytes(t, 3, &len), "<0x4>");
    assert_string_equal(tokenizer_token_bytes(t, 4, &len), "\xe6");
    tokenizer_destroy(t);
}

static void a_folder_needs_tokenizer_json_but_no_config(void **state)
{
    (void)state;
    char dir[] = "/tmp/test_tokenizer.XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    struct tokenizer *t = NULL;
    struct error err;
    assert_int_equal(tokenizer_load(&t, dir, &err), STATUS_IO);
    assert_non_null(strstr(err.text, "tokenizer.json"));
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    char json[256];
    fputs(with_quotes(json, "{" SMALL "}"), f);
    fclose(f);
    assert_int_equal(tokenizer_load(&t, dir, &err), STATUS_OK);
    int32_t ids[8];
    struct token_array out = { .ids = ids, .max = 8 };
    assert_int_equal(tokenizer_encode(t, &(struct tokenizer_input){ .text = "aba", .len = 3 }, &out, &err),
                     STATUS_OK);
    assert_int_equal(out.n, 2);
    assert_int_equal(ids[0], 2);
    assert_int_equal(ids[1], 0);
    tokenizer_destroy(t);
    unlink(path);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_lie_of_a_file_is_refused_with_its_reason),
        cmocka_unit_test(byte_tokens_that_are_no_bytes_are_text),
        cmocka_unit_test(a_folder_needs_tokenizer_json_but_no_config),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
