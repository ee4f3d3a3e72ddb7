/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `switchml doctor`: the steps by which a worker reaches a switch: name,
 * control port, version, data port, path MTU. The first failure ends the check,
 * because later steps depend on earlier ones.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "cmd/doctor/doctor.h"
#include "cmd/shared/status_client.h"
#include "control/envelope.h"
#include "core/pool.h"
#include "core/wire.h"
#include "lib/transport/interface.h"
#include "net/address.h"
#include "net/udp_options.h"
#include "switchml.h"

#define TIMEOUT_MS 3000

/* Packets that the switch has counted because they belong to no job. */
static uint64_t strays_of(const SmlControl__Status *status)
{
	const char *names[] = {sml_verdict_name(SML_VERDICT_UNKNOWN_JOB),
			       sml_verdict_name(SML_VERDICT_MALFORMED)};
	uint64_t strays = 0;

	for (size_t i = 0; i < status->n_counters; i++) {
		const SmlControl__Counter *counter = status->counters[i];

		if (strstr(counter->name, names[0]) || strstr(counter->name, names[1]))
			strays += counter->value;
	}
	return strays;
}

/* Packets of no job: the switch drops them, and counts them. */
static void send_strays(int udp, unsigned lanes)
{
	uint8_t packet[SML_HEADER_BYTES + 4 * SML_MAX_LANES] = {0};
	const struct sml_header header = {
		.magic_be = sml_be16(SML_WIRE_MAGIC),
		.version = SML_WIRE_VERSION,
		.kind = SML_PACKET_CONTRIBUTION,
		.job_be = sml_be32(UINT32_MAX),
		.lanes_be = sml_be16((uint16_t)lanes),
	};

	memcpy(packet, &header, sizeof(header));
	for (int i = 0; i < 3; i++)
		(void)!send(udp, packet, SML_HEADER_BYTES + 4 * lanes, 0);
	usleep(100000);
}

/* Packets on their way to the switch, and what it has counted before them. */
struct strays {
	struct sml_status_client *client;
	int udp, refused;
	uint64_t before;
};

/* Does the switch receive packets of this length? 1, 0, or a negative error, which is told. */
static int arrive(struct doctor *doctor, struct strays *strays, unsigned lanes)
{
	SmlControl__Envelope *answer;
	socklen_t length = sizeof(int);
	int error, arrived;

	send_strays(strays->udp, lanes);
	getsockopt(strays->udp, SOL_SOCKET, SO_ERROR, &strays->refused, &length);
	error = sml_status_client_query(strays->client, &answer);
	if (error) {
		doctor_say(doctor, DOCTOR_PROBLEM, "data port",
			   "the connection to the switch ended: %.200s", strays->client->talk.text);
		return error;
	}
	arrived = strays_of(answer->status) > strays->before;
	strays->before = strays_of(answer->status);
	sml_control__envelope__free_unpacked(answer, NULL);
	return arrived;
}

static bool check_data_port(struct doctor *doctor, struct strays *strays, uint16_t port)
{
	int arrived = arrive(doctor, strays, 0);

	if (arrived > 0) {
		doctor_say(doctor, DOCTOR_OK, "data port", "UDP packets arrive at port %u", port);
	} else if (arrived == 0) {
		doctor_say(doctor, DOCTOR_PROBLEM, "data port",
			   "UDP packets do not arrive at port %u%s%s", port,
			   strays->refused ? ": " : "",
			   strays->refused ? strerror(strays->refused) : "");
		doctor_fix(doctor, "let the firewalls on the path pass UDP to that port, and UDP "
				   "from that port back");
	}
	return arrived > 0;
}

/* The longest packets that arrive, of those that the first link takes; or an error. */
static int find_longest(struct doctor *doctor, struct strays *strays, unsigned most)
{
	static const uint16_t counts[] = SML_LANE_COUNTS;
	unsigned n = sizeof(counts) / sizeof(counts[0]) - 1;

	while (n-- > 0) {
		int arrived = counts[n] <= most ? arrive(doctor, strays, counts[n]) : 0;

		if (arrived)
			return arrived > 0 ? counts[n] : arrived;
	}
	return 0;
}

/* The kernel knows the first link's MTU, or what ICMP has told: only packets show the path's. */
static void check_mtu(struct doctor *doctor, struct strays *strays, int family)
{
	bool v6 = family == AF_INET6;
	socklen_t length = sizeof(int);
	int mtu = 0, lanes;
	unsigned most;

	if (getsockopt(strays->udp, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MTU : IP_MTU, &mtu,
		       &length) < 0) {
		doctor_say(doctor, DOCTOR_WARNING, "path mtu", "the kernel does not know it: %s",
			   strerror(errno));
		return;
	}
	most = sml_lanes_of_mtu((uint32_t)mtu, family);
	lanes = find_longest(doctor, strays, most);
	if (lanes < 0)
		return;
	if ((unsigned)lanes < most) {
		doctor_say(doctor, DOCTOR_WARNING, "path mtu",
			   "the interface has %d bytes, but of UDP packets of %u bytes, none "
			   "arrives at the switch, and of %u bytes, they do",
			   mtu, (unsigned)SML_HEADER_BYTES + 4 * most,
			   (unsigned)SML_HEADER_BYTES + 4 * (unsigned)lanes);
		doctor_fix(doctor, "raise the MTU on the path to that of the interfaces at its "
				   "ends, or set SWITCHML_MTU to the path's on all ranks");
		return;
	}
	if (lanes >= 352) {
		doctor_say(doctor, DOCTOR_OK, "path mtu", "%d bytes: packets of %d numbers", mtu,
			   lanes);
		return;
	}
	doctor_say(doctor, DOCTOR_WARNING, "path mtu",
		   "%d bytes: packets of only %d numbers, so more packets are needed", mtu, lanes);
	doctor_fix(doctor, "raise the interfaces' and switches' MTU to 1500 or 9000");
}

static void check_version(struct doctor *doctor, const SmlControl__Status *status)
{
	char protocol[32] = "before 22";

	if (status->protocol == SML_CONTROL_PROTOCOL) {
		doctor_say(doctor, DOCTOR_OK, "switch version",
			   "%s, with control protocol %u, the same as here", status->version,
			   status->protocol);
		return;
	}
	if (status->protocol != 0)
		snprintf(protocol, sizeof(protocol), "%u", status->protocol);
	doctor_say(doctor, DOCTOR_PROBLEM, "switch version",
		   "%s has control protocol %s, and %s here has %u: it refuses this host's ranks",
		   status->version, protocol, SML_VERSION_STRING, (unsigned)SML_CONTROL_PROTOCOL);
	doctor_fix(doctor, "install the same release on all machines");
}

/* As the library binds its sockets. False: that is not possible, and told. */
static bool bind_interface(struct doctor *doctor, int udp, const union sml_sockaddr *peer,
			   const char *address)
{
	const struct sml_port_range any = {0};
	struct sml_interface interface;
	int error;

	if (!doctor->interface || !*doctor->interface)
		return true;
	error = sml_interface_choose(&interface, doctor->interface, peer, address);
	if (error == 0) {
		error = sml_interface_bind(&interface, &any, udp);
		if (error)
			sml_error_set(error, "no UDP socket can be bound to interface %s: %s",
				      interface.name, strerror(-error));
	}
	if (error == 0) {
		doctor_say(doctor, DOCTOR_OK, "interface", "%s, by SWITCHML_SOCKET_IFNAME",
			   interface.name);
		return true;
	}
	doctor_say(doctor, DOCTOR_PROBLEM, "interface", "%.250s", sml_error_last());
	doctor_fix(doctor, "correct or unset SWITCHML_SOCKET_IFNAME");
	return false;
}

static void check_connected(struct doctor *doctor, struct sml_status_client *client,
			    const char *address)
{
	union sml_sockaddr peer = {0};
	socklen_t length = sizeof(peer);
	SmlControl__Envelope *answer;
	int error = sml_status_client_query(client, &answer);
	uint16_t port;
	int udp;

	if (error) {
		doctor_say(doctor, DOCTOR_PROBLEM, "switch", "%.250s", client->talk.text);
		doctor_fix(doctor, client->talk.stream.tls
					   ? "see the switch's log, and docs/security.md"
					   : "check the port; a switch prints its port when it "
					     "starts");
		return;
	}
	if (client->talk.stream.tls)
		doctor_say(doctor, DOCTOR_OK, "tls", "%s",
			   sml_tls_is_keyed(client->tls)
				   ? "version 1.3, the switch has the same job key"
				   : "version 1.3, both ends trust each other's certificates");
	check_version(doctor, answer->status);
	getpeername(client->talk.fd, &peer.any, &length);
	port = (uint16_t)answer->status->data_port;
	if (port == 0) /* an older switch does not say */
		port = ntohs(peer.v4.sin_port);
	sml_sockaddr_set_port(&peer, port);
	udp = socket(peer.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (udp >= 0 && bind_interface(doctor, udp, &peer, address) &&
	    connect(udp, &peer.any, length) == 0) {
		struct strays strays = {client, udp, 0, strays_of(answer->status)};

		sml_udp_forbid_fragments(udp, peer.any.sa_family == AF_INET6);
		if (check_data_port(doctor, &strays, port))
			check_mtu(doctor, &strays, peer.any.sa_family);
	}
	if (udp >= 0)
		close(udp);
	sml_control__envelope__free_unpacked(answer, NULL);
}

static void check_switch(struct doctor *doctor, const char *address)
{
	struct sml_status_client client;

	if (sml_status_client_open(&client, address, TIMEOUT_MS) < 0) {
		doctor_say(doctor, DOCTOR_PROBLEM, "control port", "%.250s", client.talk.text);
		if (client.fix)
			doctor_fix(doctor, "%s", client.fix);
	} else {
		doctor_say(doctor, DOCTOR_OK, "control port", "%s accepts connections", address);
		check_connected(doctor, &client, address);
	}
	sml_status_client_close(&client);
}

/* All stripes, and all switches that they can fail over to. */
void doctor_check_switches(struct doctor *doctor, const char *list)
{
	char address[320];

	while (list != NULL && sml_switch_list_next(&list, address, sizeof(address)))
		check_switch(doctor, address);
}
