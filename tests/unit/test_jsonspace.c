#include <criterion/criterion.h>
#include <stdlib.h>

#include "agent/core/jsonspace.h"

static void check(const char *compact, unsigned indent, const char *expected)
{
    char *text = jsonspace(compact, indent);

    cr_assert_str_eq(text, expected);
    free(text);
}

Test(jsonspace, on_one_line_as_python_writes_it)
{
    check("{\"a\":1,\"b\":[1,2],\"c\":{}}", 0, "{\"a\": 1, \"b\": [1, 2], \"c\": {}}\n");
    check("[]", 0, "[]\n");
    check("1", 0, "1\n");
}

Test(jsonspace, strings_are_left_alone)
{
    check("{\"a:,{\":\"x\\\"y:,[\\\\\"}", 0, "{\"a:,{\": \"x\\\"y:,[\\\\\"}\n");
}

Test(jsonspace, indented_as_python_writes_it)
{
    check("{\"a\":1,\"b\":[{\"c\":2}],\"d\":[],\"e\":{}}", 2,
          "{\n  \"a\": 1,\n  \"b\": [\n    {\n      \"c\": 2\n    }\n  ],\n  \"d\": [],\n  \"e\": {}\n}\n");
}
