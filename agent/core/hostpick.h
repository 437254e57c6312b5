/* hostpick.h - is the machine that the endpoint names this one, where does it listen, and which address do others use?
 *
 * Pure: what the name resolves to and which interfaces there are comes in as data.  Addresses are compared with addresses,
 * never names with names, but for our own host name: when nothing resolves it, it is ours; and when it is a loopback address
 * here (Debian writes "127.0.1.1 myname" into /etc/hosts), the others know it by another, so the way out of the machine is
 * taken instead.
 */
#ifndef AGENT_CORE_HOSTPICK_H
#define AGENT_CORE_HOSTPICK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/base/err.h"

enum { HOSTING_ADDR_MAX = 64, HOSTING_NOTE_MAX = 320, HOSTPICK_NAME_MAX = 16 };

/* An IPv4 address in IPv6 clothes (::ffff:10.0.0.1) is passed in undressed. */
struct hostpick_addr {
    bool     is_v6;
    uint8_t  ip[16];                 /* the first 4 of IPv4 */
    uint32_t scope;                  /* of a link-local IPv6 address; 0: not said */
    char     text[HOSTING_ADDR_MAX]; /* numeric, with %interface where it needs that */
};

/* An address of an interface.  An interface without any has one entry, whose text is "". */
struct hostpick_iface {
    char                 name[HOSTPICK_NAME_MAX];
    struct hostpick_addr addr;
    unsigned             prefix; /* bits */
    bool                 is_up, is_loopback;
};

struct hostpick_net {
    bool     is_v6;
    uint8_t  ip[16];
    unsigned prefix;
};

enum hosting_wish {
    HOSTING_AUTO, /* whoever has the endpoint's address */
    HOSTING_YES,  /* this agent, whatever the name says */
    HOSTING_NO,   /* another */
};

struct hostpick {
    const char                  *host;        /* of the endpoint, as it was typed */
    bool                         is_own_name; /* it is the host name of this machine */
    const struct hostpick_addr  *found;       /* what it resolves to, in the order of preference */
    size_t                       n_found;
    const struct hostpick_iface *ifaces;
    size_t                       n_ifaces;
    const struct hostpick_addr  *way_out[2];  /* source of packets to elsewhere by IPv4 and by IPv6, or NULL */
    enum hosting_wish            wish;
    const char                  *iface;       /* --iface, or NULL */
    const struct hostpick_net   *net;         /* --subnet, or NULL; its text is for sentences */
    const char                  *subnet;
    const char                  *local_addr;  /* --local-addr, or NULL */
    const struct hostpick_addr  *local;       /* the same when it is a number, or NULL */
};

struct hosting_answer {
    bool is_ours;                   /* we host: host is an address of this machine, or it was wished so */
    char bind[HOSTING_ADDR_MAX];    /* is_ours: where to listen, numeric */
    /* Listen there too, at the same port, or "": addresses that others may know us by (the other loopback address, one of
     * the other family, the one that is published). */
    char also[2][HOSTING_ADDR_MAX];
    char publish[HOSTING_ADDR_MAX]; /* our address as others see it, where that was chosen or follows from the endpoint; ""
                                       when it is to be seen at a connection */
    char from[HOSTING_ADDR_MAX];    /* to connect from, "" when that does not matter */
    char note[HOSTING_NOTE_MAX];    /* a sentence for people about a choice they may not expect, or "" */
};

/* -ENODEV: there is no such interface, or no address in that network; the sentence names those that there are.
 * -EADDRNOTAVAIL: --local-addr is a number that this machine does not have.  -EINVAL: the endpoint names no machine
 * (0.0.0.0). */
int hostpick_decide(const struct hostpick *in, struct hosting_answer *ret, struct cc_err *err);

/* The host name of a machine, or the same with or without its domain; case does not matter. */
bool hostpick_is_same_name(const char *host, const char *own);

#endif
