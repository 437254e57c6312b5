/* jsonget - print one member of a JSON document: jsonget failures.0.rank FILE.
 *
 * Numbers in the path index lists.  Text is printed as it is, everything else as JSON.  Status 1: there is no
 * such member. Without FILE the document is read from standard input, a line at a time: one result for each
 * line that is an object.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/base/cleanup.h"

static const cJSON *find(const cJSON *at, const char *path)
{
    while (at && *path) {
        size_t len = strcspn(path, ".");
        char   name[128];

        (void) snprintf(name, sizeof name, "%.*s", (int) len, path);
        at = cJSON_IsArray(at) ? cJSON_GetArrayItem(at, (int) strtol(name, NULL, 10))
                               : cJSON_GetObjectItemCaseSensitive(at, name);
        path += len + (path[len] == '.');
    }
    return at;
}

static int print(const char *text, const char *path)
{
    cJSON             *doc = cJSON_Parse(text);
    const cJSON       *item = find(doc, path);
    CC_AUTO_FREE char *json = item && !cJSON_IsString(item) ? cJSON_PrintUnformatted(item) : NULL;

    if (item)
        (void) puts(json ? json : item->valuestring);
    cJSON_Delete(doc);
    return item ? 0 : 1;
}

int main(int argc, char **argv)
{
    CC_AUTO_FREE char *text = NULL;
    size_t             size = 0;
    FILE              *f = argc == 3 ? fopen(argv[2], "re") : stdin;
    int                status = 1;

    if (argc < 2 || argc > 3 || !f) {
        (void) fprintf(stderr, "jsonget: usage: jsonget PATH [FILE]; FILE must be readable\n");
        return 2;
    }
    if (argc == 3 && getdelim(&text, &size, '\0', f) > 0)
        status = print(text, argv[1]);
    while (argc == 2 && getline(&text, &size, f) > 0)
        if (text[0] == '{')
            status = print(text, argv[1]);
    if (argc == 3)
        (void) fclose(f);
    return status;
}
