/* fanout_tree.h - many hosts: some of them start the others.
 *
 * One machine that logs in on N others needs N times what one ssh costs, one after the other on few CPUs, and N processes.
 * So above a number of hosts (--ssh-fanout) they are cut into stretches, and the first host of each gets a block
 * (launchdata.h) that names all of its stretch.  There ccrun is a relay: a fan-out of its own, to itself and the others,
 * which decides nothing.  What it hears it passes up on its standard error, in the lines of farend.h and two more,
 *
 *   "\036ccrun MARK lost RANK STATUS WHY\n"     it had an agent
 *   "\036ccrun MARK absent RANK STATUS WHY\n"   it never had
 *
 * and what comes after its block goes to all.  Its end, or that of the way to it, is theirs.
 */
#ifndef LAUNCHER_FANOUT_TREE_H
#define LAUNCHER_FANOUT_TREE_H

#include "launcher/fanout.h"
#include "launcher/farend.h"

/* How many hosts one connection leads to at most, when no more than `most` connections are wanted: about as many as there
 * are connections.  1: each has its own. */
unsigned fanout_tree_share(unsigned n_hosts, unsigned most);

/* One host of a stretch. */
int fanout_tree_add(struct cc_buf *block, unsigned rank, const struct host *h);

/* The relay that far->data asks for; o has its command line.  Release with fanout_clear() in any case. */
int fanout_tree_relay(struct fanout *f, struct options *o, struct farend *far, struct cc_err *err);

#endif
