/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the P4 switch does with everything but our packets: it is an Ethernet switch with static
 * entries. Unknown and group addresses are flooded to all ports that have a host.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "switch/p4/internal.h"

#define MAX_HOSTS 1024
#define MAX_PORTS 64
#define MAX_PORT  510 /* BMv2 drops at 511, and Tofino has 9 bits, too */

static int bad(const char *hosts)
{
	return sml_error_set(-EINVAL,
			     "--hosts %s: give the MAC address and the switch's port of each host, "
			     "as 02:00:00:00:00:01=1,02:00:00:00:00:02=2",
			     hosts);
}

/* One host, up to the comma or the end. */
static bool parse_host(const char *text, size_t length, uint8_t mac[SML_P4_MAC_BYTES],
		       unsigned *port)
{
	unsigned bytes[SML_P4_MAC_BYTES];
	int used = 0;

	if (sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x=%3u%n", &bytes[0], &bytes[1], &bytes[2],
		   &bytes[3], &bytes[4], &bytes[5], port, &used) != 7 ||
	    (size_t)used != length || *port > MAX_PORT)
		return false;
	for (unsigned i = 0; i < SML_P4_MAC_BYTES; i++)
		mac[i] = (uint8_t)bytes[i];
	return true;
}

static int add_host(struct sml_dataplane *dataplane, const uint8_t mac[SML_P4_MAC_BYTES],
		    unsigned port)
{
	struct sml_p4_row row = {
		.table = "SmlIngress.forwarding.hosts",
		.action = "SmlIngress.forwarding.to_port",
		.keys = {{.n = SML_P4_MAC_BYTES}},
		.parameters = {sml_p4_number(port, 2)},
		.n_keys = 1,
		.n_parameters = 1,
	};

	memcpy(row.keys[0].bytes, mac, SML_P4_MAC_BYTES);
	return dataplane->operations->insert(dataplane->target, &row);
}

static int note_port(struct sml_p4_node *nodes, unsigned *n, unsigned port)
{
	for (unsigned i = 0; i < *n; i++)
		if (nodes[i].port == port)
			return 0;
	if (*n == MAX_PORTS)
		return sml_error_set(-EINVAL, "--hosts: hosts at more than %u ports", MAX_PORTS);
	nodes[(*n)++] = (struct sml_p4_node){.port = (uint16_t)port};
	return 0;
}

int sml_p4_hosts_set(struct sml_dataplane *dataplane, const char *hosts)
{
	struct sml_p4_node nodes[MAX_PORTS];
	const char *text = hosts;
	unsigned n = 0, n_hosts = 0;
	int rc = 0;

	while (rc == 0 && *text != '\0') {
		size_t length = strcspn(text, ",");
		uint8_t mac[SML_P4_MAC_BYTES];
		unsigned port;

		if (n_hosts++ == MAX_HOSTS || !parse_host(text, length, mac, &port))
			return bad(hosts);
		rc = note_port(nodes, &n, port);
		if (rc == 0)
			rc = add_host(dataplane, mac, port);
		text += length;
		text += *text == ',';
	}
	if (n_hosts == 0)
		return bad(hosts);
	return rc < 0 ? rc
		      : dataplane->operations->add_group(dataplane->target, SML_P4_FLOOD_GROUP,
							 nodes, n);
}
