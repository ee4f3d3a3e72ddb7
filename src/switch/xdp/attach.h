/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * XDP programs on interfaces, attached by links: the kernel detaches them when the last descriptor
 * closes, however this process ends. Nothing is pinned.
 */
#ifndef SML_SWITCH_XDP_ATTACH_H
#define SML_SWITCH_XDP_ATTACH_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#define SML_XDP_MAX_INTERFACES 64

struct sml_xdp_ports {
	unsigned n;
	int ifindexes[SML_XDP_MAX_INTERFACES];
	int links[SML_XDP_MAX_INTERFACES]; /* -1 if there is none */
	char names[SML_XDP_MAX_INTERFACES][IF_NAMESIZE];
	bool generic;	   /* all of them; set by attaching */
	bool some_virtual; /* packets arrive with checksums that were left to hardware */
	uint32_t ring;	   /* the packets that fit the smallest of their receive rings */
};

/*
 * Finds the interfaces of a list like "eth0,eth1". Returns 0, or a negative errno: then
 * sml_error_last() names the wrong one.
 */
int sml_xdp_ports_parse(struct sml_xdp_ports *ports, const char *list);

/*
 * In the driver, or with `generic` in front of the stack. All or none. -EBUSY: there is another
 * program. Errors as above.
 */
int sml_xdp_ports_attach(struct sml_xdp_ports *ports, int program_fd, bool generic);
void sml_xdp_ports_detach(struct sml_xdp_ports *ports);

/* Is this an interface of one VLAN, on top of another? */
bool sml_xdp_is_vlan(uint32_t ifindex);

/* ---- what an interface can do, according to the kernel: Linux 6.3 and later ---- */

/* enum netdev_xdp_act of linux/netdev.h, which older systems' headers lack. */
#define SML_XDP_FEATURE_REDIRECT (1u << 1)
#define SML_XDP_FEATURE_NDO_XMIT (1u << 2) /* others can redirect to it now */

/* Returns 0, or a negative errno if it is not known. */
int sml_xdp_features(int ifindex, uint64_t *features);

#endif
