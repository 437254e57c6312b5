/* jsonspace.h - blanks and newlines for compact JSON, set as Python's json.dumps sets them.
 *
 * Pure.  cJSON writes tabs or nothing at all; people grep for `"state": "FAILED"`, which torchrun wrote.
 */
#ifndef AGENT_CORE_JSONSPACE_H
#define AGENT_CORE_JSONSPACE_H

/* `compact` is valid JSON without blanks outside strings.  indent 0: one line.  The result ends in a newline
 * and is to be freed; NULL: out of memory. */
char *jsonspace(const char *compact, unsigned indent);

#endif
