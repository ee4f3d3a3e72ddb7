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

#define MAX_PORT 510 /* BMv2 drops at 511, and Tofino has 9 bits, too */

static int bad(const char *hosts)
{
	return sml_error_set(-EINVAL,
			     "--hosts%s%s: give the MAC address and the switch's port of each "
			     "host, as 02:00:00:00:00:01=1,02:00:00:00:00:02=2",
			     hosts[0] != '\0' ? " " : "", hosts);
}

/* One host, up to the comma or the end. */
static bool parse_host(const char *text, size_t length, struct sml_p4_host *host)
{
	unsigned bytes[SML_P4_MAC_BYTES], port;
	int used = 0;

	if (sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x=%3u%n", &bytes[0], &bytes[1], &bytes[2],
		   &bytes[3], &bytes[4], &bytes[5], &port, &used) != 7 ||
	    (size_t)used != length || port > MAX_PORT)
		return false;
	for (unsigned i = 0; i < SML_P4_MAC_BYTES; i++)
		host->mac[i] = (uint8_t)bytes[i];
	host->port = (uint16_t)port;
	return true;
}

/* The P4 switch has one entry for each address. */
static int note_host(struct sml_p4_hosts *hosts, const struct sml_p4_host *host)
{
	const uint8_t *mac = host->mac;

	for (unsigned i = 0; i < hosts->n; i++)
		if (memcmp(hosts->all[i].mac, mac, SML_P4_MAC_BYTES) == 0)
			return sml_error_set(-EINVAL,
					     "--hosts: %02x:%02x:%02x:%02x:%02x:%02x is there "
					     "twice",
					     mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
	if (hosts->n == SML_P4_HOSTS)
		return sml_error_set(-EINVAL, "--hosts: more than %u hosts", SML_P4_HOSTS);
	hosts->all[hosts->n++] = *host;
	return 0;
}

static int note_port(struct sml_p4_hosts *hosts, uint16_t port)
{
	for (unsigned i = 0; i < hosts->n_ports; i++)
		if (hosts->ports[i].port == port)
			return 0;
	if (hosts->n_ports == SML_P4_HOST_PORTS)
		return sml_error_set(-EINVAL, "--hosts: hosts at more than %u ports",
				     SML_P4_HOST_PORTS);
	hosts->ports[hosts->n_ports++] = (struct sml_p4_node){.port = port};
	return 0;
}

int sml_p4_hosts_parse(struct sml_p4_hosts *hosts, const char *text)
{
	const char *all = text;
	int rc = 0;

	hosts->n = hosts->n_ports = 0;
	while (rc == 0 && *text != '\0') {
		size_t length = strcspn(text, ",");
		struct sml_p4_host host;

		if (!parse_host(text, length, &host))
			return bad(all);
		rc = note_host(hosts, &host);
		if (rc == 0)
			rc = note_port(hosts, host.port);
		text += length;
		text += *text == ',';
	}
	return rc == 0 && hosts->n == 0 ? bad(all) : rc;
}

static int add_host(struct sml_dataplane *dataplane, const struct sml_p4_host *host)
{
	struct sml_p4_row row = {
		.table = "SmlIngress.forwarding.hosts",
		.action = "SmlIngress.forwarding.to_port",
		.keys = {{.n = SML_P4_MAC_BYTES}},
		.parameters = {sml_p4_number(host->port, 2)},
		.n_keys = 1,
		.n_parameters = 1,
	};

	memcpy(row.keys[0].bytes, host->mac, SML_P4_MAC_BYTES);
	return dataplane->operations->insert(dataplane->target, &row, 1);
}

int sml_p4_hosts_set(struct sml_dataplane *dataplane)
{
	const struct sml_p4_hosts *hosts = &dataplane->hosts;
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < hosts->n; i++)
		rc = add_host(dataplane, &hosts->all[i]);
	return rc < 0 ? rc
		      : dataplane->operations->add_group(dataplane->target, SML_P4_FLOOD_GROUP,
							 hosts->ports, hosts->n_ports);
}
