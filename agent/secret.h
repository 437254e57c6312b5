/* secret.h - the secret that the agents of a job share, and the proof that one knows it.
 *
 * The proof is HMAC-SHA256 under the secret of what both ends of a connection have said so far: their nonces, the job and
 * which end it is that proves (proto_transcript()).  So a proof is good for one connection and one direction only.
 */
#ifndef AGENT_SECRET_H
#define AGENT_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/proto.h"
#include "store/base/err.h"

enum { SECRET_MAX = 4096 }; /* bytes; at least 1 */

struct secret;

/* Copies it.  NULL and err: -EINVAL: its length; -ENOMEM. */
struct secret *secret_new(const uint8_t *bytes, size_t n, struct cc_err *err);
struct secret *secret_free(struct secret *s); /* NULL is fine; what was copied is wiped */

/* s NULL, there is no secret: zeros. */
void secret_prove(const struct secret *s, enum proto_side side, const struct proto_open *o, const struct proto_challenge *c,
                  uint8_t ret_proof[PROTO_PROOF_BYTES]);

/* Takes as long whether they differ early, late or not at all. */
bool secret_is_same(const uint8_t a[PROTO_PROOF_BYTES], const uint8_t b[PROTO_PROOF_BYTES]);

void secret_make_nonce(uint8_t ret[PROTO_NONCE_BYTES]);

#endif
