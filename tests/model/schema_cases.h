/* schema_cases.h - JSON schemas with documents that fit and documents that do not:
 * not valid, not JSON, or outside of what model/json_schema.h and json_rules.h let
 * through.  One row a schema; both lists end at the first NULL.
 */
#ifndef TESTS_MODEL_SCHEMA_CASES_H
#define TESTS_MODEL_SCHEMA_CASES_H

static const struct schema_case {
    const char *schema;
    const char *good[8];
    const char *bad[8];
} schema_cases[] = {
    { "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"string\"},\"c\":"
      "{\"type\":\"null\"}},"
      "\"required\":[\"b\"]}",
      { "{\"b\":\"x\"}", "{\"a\":1,\"b\":\"\"}", "{ \"a\": -5, \"b\": \"\\u00e9\", \"c\": null }",
        "{\n  \"b\": \"\",\n  \"c\": null\n}" },
      { "{}", "{\"a\":1}", "{\"b\":\"x\",}", "{\"b\":\"x\",\"d\":1}", "{\"b\":\"x\",\"a\":1}",
        "{,\"b\":\"x\"}", "{\"b\":\"x\"", "{  \"b\":\"x\"}" } },
    { "{\"properties\":{\"a\":{\"type\":\"integer\"},\"ab\":true,\"\xc3\xa4\\\"\":true},"
      "\"additionalProperties\":{\"type\":\"string\"}}",
      { "{\"a\":1,\"c\":\"\"}", "{\"abc\":\"\",\"\xc3\xa4\":\"\"}", "{\"\":\"x\"}",
        "{\"ab\":[],\"b\\u0061\":\"\"}", "{\"\xc3\xa4\\\"\":4}", "{}" },
      { "{\"c\":1}", "{\"a\":\"\"}", "{\"a\":1,\"a\":\"\"}", "{\"c\":\"\",\"a\":1}",
        "{\"c\":\"\",\"\xc3\xa4\\\"\":\"\"}" } },
    { "{\"type\":\"object\",\"required\":[\"x\"],\"additionalProperties\":true}",
      { "{\"x\":[1]}", "{\"x\":1,\"y\":{}}" },
      { "{}", "{\"y\":1}" } },
    { "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"},\"minProperties\":1,"
      "\"maxProperties\":2}",
      { "{\"x\":1}", "{\"x\":1,\"y\":2}" },
      { "{}", "{\"x\":1,\"y\":2,\"z\":3}", "{\"x\":\"\"}" } },
    { "{\"type\":\"object\",\"additionalProperties\":false}", { "{}", "{ }" }, { "{\"a\":1}", "[]" } },
    { "{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"minItems\":2,\"maxItems\":4}",
      { "[true,false]", "[ true, false, true ]", "[true,true,true,true]" },
      { "[]", "[true]", "[true,true,true,true,true]", "[true,1]", "[true,true,]" } },
    { "{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":3}",
      { "[1,2,3]", "[1,2,3,4,5,6]" },
      { "[1,2]", "[]", "[1,2,3" } },
    { "{\"type\":\"array\",\"maxItems\":0}", { "[]" }, { "[1]" } },
    { "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"string\"},{\"type\":\"integer\"}],\"items\":{"
      "\"type\":\"null\"},\"minItems\":1}",
      { "[\"a\"]", "[\"a\",1]", "[\"a\",1,null,null]" },
      { "[]", "[1]", "[\"a\",\"b\"]", "[\"a\",1,2]" } },
    { "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"string\"},{\"type\":\"integer\"}],\"minItems\":2}",
      { "[\"a\",1]" },
      { "[\"a\"]", "[\"a\",1,null]" } },
    { "{\"prefixItems\":[true,true],\"items\":false,\"maxItems\":1}", { "[]", "[1]" }, { "[1,2]" } },
    { "{\"type\":\"integer\",\"minimum\":-13,\"maximum\":250}",
      { "-13", "0", "7", "249", "250", "99", "-9" },
      { "-14", "251", "00", "1000", "-0", "1.0", "-130" } },
    { "{\"type\":\"integer\",\"exclusiveMinimum\":9.5,\"exclusiveMaximum\":12}",
      { "10", "11" },
      { "9", "12", "1" } },
    { "{\"type\":\"integer\",\"minimum\":5}",
      { "5", "10", "999999999999999999" },
      { "4", "-5", "9999999999999999999" } },
    { "{\"type\":\"integer\",\"maximum\":-5}", { "-5", "-10" }, { "-4", "5", "0" } },
    { "{\"type\":\"number\",\"minimum\":0}", { "0", "0.0", "0.5", "12.25" }, { "-0.5", "-1", "-0" } },
    { "{\"type\":\"number\",\"exclusiveMinimum\":0,\"maximum\":1}",
      { "0.5", "0.001", "1", "1.00", "0.052" },
      { "0", "0.0", "1.01", "-1", "2" } },
    { "{\"type\":\"number\",\"minimum\":-2,\"exclusiveMaximum\":3}",
      { "-2", "-2.0", "-1.9", "-0.1", "0", "2.99" },
      { "-2.1", "3", "3.0", "-3" } },
    { "{\"type\":\"number\"}",
      { "0", "-1.5e-10", "1E5", "123.456" },
      { "01", ".5", "1.", "1e", "+1", "1e400" } },
    { "{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
      { "\"ab\"", "\"\xf0\x9f\x98\x80\xc3\xa4\"", "\"\\n\\u20ac\\ud83d\\ude00\"" },
      { "\"a\"", "\"abcd\"", "\"\"", "\"\\ud83dx\"", "\"a\\u0000\"", "\"a\nb\"", "\"\xff\xff\"" } },
    { "{\"type\":\"string\",\"pattern\":\"^[a-z]+-\\\\d{2}$\"}",
      { "\"ab-12\"" },
      { "\"ab-1\"", "\"Ab-12\"", "\"-12\"", "\"ab-123\"" } },
    { "{\"type\":\"string\",\"pattern\":\"b+\"}",
      { "\"b\"", "\"xxbby\"", "\"\\nb\\\"\"" },
      { "\"\"", "\"xyz\"" } },
    { "{\"type\":\"string\",\"format\":\"date\"}",
      { "\"2024-02-29\"", "\"2023-12-31\"", "\"2000-02-29\"" },
      { "\"2023-02-29\"", "\"1900-02-29\"", "\"2023-13-01\"", "\"2023-04-31\"", "\"2023-1-1\"" } },
    { "{\"type\":\"string\",\"format\":\"date-time\"}",
      { "\"2024-02-29T23:59:59Z\"", "\"2024-01-01T00:00:00.123+02:00\"" },
      { "\"2024-01-01\"", "\"2024-01-01T24:00:00Z\"", "\"2024-01-01 00:00:00Z\"" } },
    { "{\"type\":\"string\",\"format\":\"uuid\"}",
      { "\"123e4567-e89b-12d3-a456-426614174000\"" },
      { "\"123e4567e89b12d3a456426614174000\"" } },
    { "{\"type\":\"string\",\"format\":\"email\"}",
      { "\"a.b+c@example.org\"" },
      { "\"a@b\"", "\"@example.org\"", "\"a..b@example.org\"" } },
    { "{\"type\":\"string\",\"format\":\"ipv4\"}",
      { "\"255.0.10.199\"" },
      { "\"256.0.0.1\"", "\"1.2.3\"", "\"01.2.3.4\"" } },
    { "{\"enum\":[\"a\",\"a\\\"b\",1,2.5,null,{\"k\":[1,\"x\"]},[]]}",
      { "\"a\"", "\"a\\\"b\"", "1", "2.5", "null", "{\"k\":[1,\"x\"]}", "[]" },
      { "\"b\"", "2", "true", "{\"k\": [1,\"x\"]}" } },
    { "{\"type\":[\"string\",\"null\"],\"enum\":[\"a\",1,null]}", { "\"a\"", "null" }, { "1" } },
    { "{\"const\":\"fixed\"}", { "\"fixed\"" }, { "\"other\"" } },
    { "{\"type\":[\"integer\",\"null\"],\"minimum\":0}", { "3", "null" }, { "-3", "\"\"" } },
    { "{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}]}",
      { "1", "[1,2]" },
      { "\"\"", "[\"\"]" } },
    { "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"integer\"}},"
      "\"anyOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}]}",
      { "{\"a\":1}", "{\"b\":1}", "{\"a\":1,\"b\":2}" },
      { "{}", "{\"c\":1}" } },
    { "{\"allOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"number\"}},\"required\":[\"a\"]},"
      "{\"$ref\":\"#/$defs/"
      "b\"}],\"$defs\":{\"b\":{\"properties\":{\"b\":{\"type\":\"string\"},\"a\":{\"minimum\":3}},"
      "\"required\":[\"b\"]}}}",
      { "{\"a\":3,\"b\":\"\"}" },
      { "{\"a\":2,\"b\":\"\"}", "{\"a\":3}", "{\"b\":\"\"}" } },
    { "{\"allOf\":[{\"type\":[\"string\",\"integer\"],\"minimum\":2},{\"type\":[\"number\",\"null\"],"
      "\"maximum\":4}]}",
      { "2", "4" },
      { "1", "5", "null", "\"\"", "2.5" } },
    { "{\"$ref\":\"#/$defs/node\",\"$defs\":{\"node\":{\"type\":\"object\",\"properties\":{"
      "\"v\":{\"type\":\"integer\"},\"next\":{\"anyOf\":[{\"$ref\":\"#/$defs/"
      "node\"},{\"type\":\"null\"}]}},"
      "\"required\":[\"v\",\"next\"]}}}",
      { "{\"v\":1,\"next\":null}", "{\"v\":1,\"next\":{\"v\":2,\"next\":{\"v\":3,\"next\":null}}}" },
      { "{\"v\":1}", "{\"v\":1,\"next\":{}}" } },
    { "{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}", { "[]", "[[],[[]]]" }, { "[1]", "{}" } },
    { "true", { "1", "{\"a\":[{}]}", "\"\"" }, { "", "nul" } },
    { "{}", { "[1,{\"a\":null}]" }, { "]" } },
    { "{\"type\":\"string\",\"minimum\":3,\"items\":false}", { "\"x\"" }, { "3" } },
    { "{\"title\":\"t\",\"description\":\"d\",\"default\":1,\"examples\":[1],\"x-order\":2,\"type\":"
      "\"boolean\"}",
      { "true" },
      { "1" } },
};

#endif
