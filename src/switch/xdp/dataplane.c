/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The XDP dataplane: slots are in the kernel (bpf/switchml.bpf.c), jobs are rows of its maps
 * (jobs.c), and one thread serves the socket (thread.c). This file has the operations for the
 * control plane.
 *
 * The kernel sends results through the ports. If a port cannot do that (generic mode; a veth whose
 * peer has no GRO), the job's results go to the socket, and the thread sends them: slower, but the
 * same bits.
 */
#include "switch/dataplane.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/error.h"
#include "switch/shared/log.h"
#include "switch/xdp/attach.h"
#include "switch/xdp/thread.h"

#define WHY_BYTES  200
#define MIN_WINDOW 4u

/* ---- opening ---- */

static int load_and_attach(struct sml_dataplane *dataplane, bool generic)
{
	struct sml_xdp_config config = {
		.port = dataplane->daemon.config.port,
		.max_jobs = dataplane->daemon.config.max_jobs,
		.max_slots = dataplane->daemon.config.max_slots,
		.accept_partial = dataplane->ports.some_virtual,
		.shows_libbpf = dataplane->daemon.config.debug >= SML_LOG_TRACE,
	};
	int rc = 0;

	if (dataplane->maps == NULL)
		rc = sml_xdp_maps_open(&dataplane->maps, &config);
	if (rc == 0)
		rc = sml_xdp_ports_attach(&dataplane->ports, sml_xdp_maps_entry_fd(dataplane->maps),
					  generic);
	return rc;
}

static int attach(struct sml_dataplane *dataplane)
{
	enum sml_xdp_mode mode = dataplane->daemon.config.xdp_mode;
	int rc;

	if (mode == SML_XDP_GENERIC)
		return load_and_attach(dataplane, true);
	rc = load_and_attach(dataplane, false);
	if (rc == 0 || mode == SML_XDP_NATIVE || dataplane->maps == NULL || rc == -EBUSY ||
	    rc == -EPERM)
		return rc;
	sml_switch_log(SML_LOG_WARN, "%s; using XDP's generic mode instead, which is slower",
		       sml_error_last());
	return load_and_attach(dataplane, true);
}

static void free_all(struct sml_dataplane *dataplane)
{
	sml_xdp_ports_detach(&dataplane->ports);
	if (dataplane->events != NULL)
		ring_buffer__free(dataplane->events);
	sml_xdp_maps_close(dataplane->maps);
	sml_daemon_fini(&dataplane->daemon);
	free(dataplane);
}

static int open_thread(struct sml_dataplane *dataplane)
{
	int rc;

	dataplane->events = ring_buffer__new(sml_xdp_maps_events_fd(dataplane->maps),
					     sml_xdp_thread_event, dataplane, NULL);
	rc = dataplane->events == NULL ? -ENOMEM : 0;
	if (rc == 0) {
		dataplane->daemon.events_fd = ring_buffer__epoll_fd(dataplane->events);
		/*
		 * From here on, the process only uses maps and looks up programs. Before Linux
		 * 5.19, that needs CAP_BPF if kernel.unprivileged_bpf_disabled is set.
		 */
		if (dataplane->daemon.config.seal != NULL)
			dataplane->daemon.config.seal(true);
		rc = sml_xdp_maps_start_cleaner(dataplane->maps);
	}
	return rc < 0 ? sml_error_set(rc, "the dataplane's thread cannot be started: %s",
				      strerror(-rc))
		      : sml_daemon_start(&dataplane->daemon, &sml_xdp_thread_service);
}

static int open_parts(struct sml_dataplane *dataplane)
{
	int rc = sml_xdp_ports_parse(&dataplane->ports, dataplane->daemon.config.interfaces);

	if (rc == 0)
		rc = sml_xdp_thread_open(dataplane);
	if (rc == 0)
		rc = attach(dataplane);
	return rc < 0 ? rc : open_thread(dataplane);
}

static int xdp_open(struct sml_dataplane **opened, const struct sml_dataplane_config *config)
{
	return sml_daemon_open(opened, config, sizeof(**opened), open_parts, free_all);
}

static void xdp_close(struct sml_dataplane *dataplane)
{
	sml_daemon_stop(&dataplane->daemon);
	free_all(dataplane);
}

static void xdp_describe(struct sml_dataplane *dataplane, char *text, size_t bytes)
{
	const struct sml_xdp_ports *ports = &dataplane->ports;
	size_t used =
		(size_t)snprintf(text, bytes, "xdp (%s) on", ports->generic ? "generic" : "native");

	for (unsigned i = 0; i < ports->n && used < bytes; i++)
		used += (size_t)snprintf(text + used, bytes - used, "%s %s", i ? "," : "",
					 ports->names[i]);
}

/* ---- jobs ---- */

static struct sml_xdp_user_job *job_of(struct sml_dataplane *dataplane, uint32_t number)
{
	return (struct sml_xdp_user_job *)sml_daemon_job_of(&dataplane->daemon, number);
}

static int xdp_add_job(struct sml_dataplane *dataplane, const struct sml_pool_rules *rules)
{
	struct sml_xdp_user_job *job = calloc(1, sizeof(*job));
	int rc;

	if (job == NULL)
		return -ENOMEM;
	job->common.rules = *rules;
	rc = sml_xdp_maps_add_job(dataplane->maps, rules);
	if (rc < 0) {
		free(job);
		return rc;
	}
	sml_daemon_set_job(&dataplane->daemon, rules->job, &job->common);
	return 0;
}

/* A result takes the place of the completing packet on one port, and leaves through all ports. */
static bool can_redirect(uint32_t ifindex)
{
	const uint64_t both = SML_XDP_FEATURE_REDIRECT | SML_XDP_FEATURE_NDO_XMIT;
	uint64_t features;

	/* If the kernel does not say, assume that it can. */
	return sml_xdp_features((int)ifindex, &features) < 0 || (features & both) == both;
}

/* Why packets cannot leave through the port to a rank, or to the parent, as text; or NULL. */
static const char *port_is_unfit(struct sml_dataplane *dataplane,
				 const struct sml_xdp_user_job *job, uint8_t rank, char *why)
{
	char name[IF_NAMESIZE] = "?", whose[16] = "the parent";
	struct sml_xdp_peer first = {0}, peer;

	if (rank != SML_XDP_PARENT)
		snprintf(whose, sizeof(whose), "rank %u", rank);
	for (uint8_t shard = 0; shard < job->common.rules.n_shards; shard++) {
		if (sml_xdp_maps_get_peer(dataplane->maps, job->common.rules.job, rank, shard,
					  &peer) < 0)
			continue;
		if (shard == 0)
			first = peer;
		if (peer.ifindex == first.ifindex)
			continue;
		snprintf(why, WHY_BYTES,
			 "the sockets of %s are reached through more than one interface", whose);
		return why;
	}
	if (can_redirect(first.ifindex))
		return NULL;
	if_indextoname(first.ifindex, name);
	snprintf(why, WHY_BYTES,
		 "%s, which leads to %s, cannot transmit for XDP (if it is a veth, enable GRO on "
		 "its peer: ethtool -K NAME gro on)",
		 name, whose);
	return why;
}

static bool daemon_has_to_send(struct sml_dataplane *dataplane, const struct sml_xdp_user_job *job)
{
	char why[WHY_BYTES];

	if (dataplane->ports.generic)
		return true;
	for (uint8_t rank = 0; rank <= SML_XDP_PARENT; rank++) {
		bool is_there = rank == SML_XDP_PARENT ? job->common.rules.is_leaf
						       : rank < job->common.rules.n_ranks;

		if (!is_there || port_is_unfit(dataplane, job, rank, why) == NULL)
			continue;
		sml_switch_log(SML_LOG_WARN,
			       "%s; the daemon sends this job's results through its socket, which "
			       "is slower",
			       why);
		return true;
	}
	return false;
}

static int xdp_start_job(struct sml_dataplane *dataplane, uint32_t number)
{
	struct sml_xdp_user_job *job = job_of(dataplane, number);
	bool daemon_sends = daemon_has_to_send(dataplane, job);
	uint64_t daemon_key = 0;

	while (daemon_sends && daemon_key == 0)
		if (getrandom(&daemon_key, sizeof(daemon_key), 0) != sizeof(daemon_key))
			return -EIO;
	/* Must precede the program's first result. */
	pthread_mutex_lock(&dataplane->daemon.mutex);
	job->common.daemon_key = daemon_key;
	job->common.started = true;
	pthread_mutex_unlock(&dataplane->daemon.mutex);
	return sml_xdp_maps_start_job(dataplane->maps, number, daemon_key);
}

static void xdp_remove_job(struct sml_dataplane *dataplane, uint32_t number)
{
	struct sml_xdp_user_job *job = job_of(dataplane, number);

	sml_xdp_maps_remove_job(dataplane->maps, number);
	sml_daemon_set_job(&dataplane->daemon, number, NULL);
	free(job);
}

/* ---- addresses ---- */

static const char *shard_misses(struct sml_dataplane *dataplane, const struct sml_xdp_user_job *job,
				uint8_t rank, uint8_t shard)
{
	struct sml_xdp_peer peer;

	if (!job->has_path[rank][shard])
		return "said that it was ready, but not every one of its sockets has sent a probe";
	if (sml_xdp_maps_get_peer(dataplane->maps, job->common.rules.job, rank, shard, &peer) < 0 ||
	    peer.ifindex == 0)
		return "sends packets that do not arrive at an interface of the switch's --iface, "
		       "or that XDP cannot parse";
	if (peer.l3 == SML_XDP_UNTAGGED && sml_xdp_is_vlan(job->arrived_by[rank][shard]))
		return "sends packets whose VLAN tag XDP does not see: on the switch, run ethtool "
		       "-K INTERFACE rxvlan off (for a veth: txvlan off on its peer)";
	return NULL;
}

/* A map that cannot be written keeps the old address; the rank asks again. */
static void xdp_renew_address(struct sml_dataplane *dataplane, uint32_t number, uint8_t child,
			      uint8_t shard, uint32_t renewal)
{
	sml_daemon_renew_address(dataplane, number, child, shard, renewal);
	(void)sml_xdp_maps_renew_peer(dataplane->maps, number, child, shard, renewal);
}

/* rank: or SML_XDP_PARENT, which is ready as soon as it has answered. */
static const char *xdp_misses_address(struct sml_dataplane *dataplane, uint32_t number,
				      uint8_t rank)
{
	const struct sml_xdp_user_job *job = job_of(dataplane, number);
	const char *misses = NULL;

	pthread_mutex_lock(&dataplane->daemon.mutex);
	for (uint8_t shard = 0; misses == NULL && shard < job->common.rules.n_shards; shard++)
		misses = shard_misses(dataplane, job, rank, shard);
	pthread_mutex_unlock(&dataplane->daemon.mutex);
	return misses;
}

/*
 * Synchronized ranks send at the same time, so all ranks behind a port share its ring. One of a
 * leaf's ports may lead to its parent only. If the daemon sends, results also wait in its socket.
 */
static uint32_t xdp_window(struct sml_dataplane *dataplane, uint32_t packet_bytes, uint32_t n_ranks)
{
	bool is_leaf = dataplane->parent.any.sa_family != AF_UNSPEC;
	unsigned n_ports = dataplane->ports.n - (is_leaf && dataplane->ports.n > 1);
	uint64_t packets = (uint64_t)dataplane->ports.ring * n_ports / n_ranks;
	uint64_t in_socket =
		dataplane->daemon.buffer_bytes / (packet_bytes + packet_bytes / 4 + 1024);

	if (packets > dataplane->ports.ring)
		packets = dataplane->ports.ring;
	if (dataplane->ports.generic && packets > in_socket)
		packets = in_socket;
	if (packets < MIN_WINDOW)
		return MIN_WINDOW;
	return packets < SML_MAX_SLOTS ? (uint32_t)packets : SML_MAX_SLOTS;
}

static bool xdp_wants_single_packets(struct sml_dataplane *dataplane)
{
	/*
	 * In the driver, XDP sees segmented packets: veth segments them before, and NICs receive
	 * them like that.
	 */
	return dataplane->ports.generic;
}

/* ---- a leaf's parent ---- */

static void xdp_set_parent(struct sml_dataplane *dataplane, const union sml_sockaddr *parent)
{
	dataplane->parent = *parent;
	sml_udp_map_for(dataplane->daemon.fd, &dataplane->parent);
}

static struct sml_xdp_endpoint endpoint_of(const union sml_sockaddr *address)
{
	union sml_sockaddr mapped = *address;
	struct sml_xdp_endpoint endpoint = {.reserved = 0};

	sml_sockaddr_map(&mapped);
	memcpy(endpoint.address_be, &mapped.v6.sin6_addr, sizeof(endpoint.address_be));
	endpoint.port_be = mapped.v6.sin6_port;
	return endpoint;
}

/* A lost probe is sent again: so is one that the socket has no room for. */
static void send_probes(struct sml_dataplane *dataplane, const struct sml_xdp_user_job *job,
			uint16_t lanes, uint32_t renewal)
{
	uint8_t packet[SML_XDP_LONGEST_BYTES] = {0};

	for (uint8_t shard = 0; shard < job->common.rules.n_shards; shard++) {
		const struct sml_header header =
			sml_pool_probe_up(&job->common.rules, shard, lanes, renewal);

		memcpy(packet, &header, sizeof(header));
		(void)sendto(dataplane->daemon.fd, packet, SML_HEADER_BYTES + 4u * lanes,
			     MSG_DONTWAIT | MSG_NOSIGNAL, &job->parent.any,
			     sml_sockaddr_length(&job->parent));
	}
}

/*
 * The kernel routes the probes. The parent's answers tell the program the way to it, so it must
 * first know where they come from.
 */
static void xdp_probe_parent(struct sml_dataplane *dataplane, uint32_t number, uint16_t port,
			     uint16_t lanes, uint32_t renewal)
{
	struct sml_xdp_user_job *job = job_of(dataplane, number);
	union sml_sockaddr to = dataplane->parent;
	struct sml_xdp_endpoint endpoint;

	sml_sockaddr_set_port(&to, port);
	endpoint = endpoint_of(&to);
	if (sml_xdp_maps_set_parent(dataplane->maps, number, &endpoint) < 0)
		return;
	pthread_mutex_lock(&dataplane->daemon.mutex);
	job->parent = to;
	pthread_mutex_unlock(&dataplane->daemon.mutex);
	if (lanes <= SML_XDP_LANES)
		send_probes(dataplane, job, lanes, renewal);
}

static uint16_t xdp_parent_lanes(struct sml_dataplane *dataplane, uint32_t number)
{
	const struct sml_xdp_user_job *job = job_of(dataplane, number);
	uint16_t least = UINT16_MAX;

	pthread_mutex_lock(&dataplane->daemon.mutex);
	for (uint8_t shard = 0; shard < job->common.rules.n_shards; shard++)
		least = job->up_lanes[shard] < least ? job->up_lanes[shard] : least;
	pthread_mutex_unlock(&dataplane->daemon.mutex);
	return least;
}

static const char *xdp_misses_parent(struct sml_dataplane *dataplane, uint32_t number)
{
	return xdp_misses_address(dataplane, number, SML_XDP_PARENT);
}

/* ---- counters ---- */

static void xdp_job_counters(struct sml_dataplane *dataplane, uint32_t number,
			     struct sml_job_counters *counters)
{
	struct sml_xdp_totals totals;

	sml_xdp_maps_totals(dataplane->maps, number, &totals);
	memcpy(counters->verdicts, totals.traffic.fates, sizeof(counters->verdicts));
	memcpy(counters->contributions, totals.contributions, sizeof(totals.contributions));
	memcpy(counters->resends, totals.resends, sizeof(totals.resends));
	memcpy(counters->waited_ns, totals.waited_ns, sizeof(totals.waited_ns));
}

static uint32_t xdp_slot_states(struct sml_dataplane *dataplane, uint32_t number,
				struct sml_slot_progress *states, uint32_t n)
{
	const struct sml_pool_rules *rules = &job_of(dataplane, number)->common.rules;
	uint32_t n_slots = (uint32_t)rules->head_slots + rules->data_slots, found = 0;
	struct sml_slot buffers[2];
	const struct sml_pool pool = {.slots = buffers};

	for (uint32_t slot = 0; slot < n_slots && found < n; slot++) {
		const struct sml_slot *newest;

		if (sml_xdp_maps_get_slot(dataplane->maps, number, slot, buffers) < 0)
			break;
		newest = sml_pool_newest(&pool, 0);
		if (newest == NULL)
			continue;
		states[found++] = (struct sml_slot_progress){
			.slot = (uint16_t)slot,
			.use = newest->use,
			.missing = sml_pool_all_ranks(rules) & ~newest->seen,
		};
	}
	return found;
}

/* Packets that ended in the kernel, plus those that came to the socket. */
static void xdp_counters(struct sml_dataplane *dataplane, struct sml_dataplane_counters *counters)
{
	struct sml_xdp_traffic traffic;

	sml_xdp_maps_traffic(dataplane->maps, &traffic);
	sml_daemon_counters(&dataplane->daemon, counters);
	counters->packets_received += traffic.packets_received;
	counters->bytes_received += traffic.bytes_received;
	counters->packets_sent += traffic.packets_sent;
	counters->bytes_sent += traffic.bytes_sent;
	counters->bad_checksums = traffic.fates[SML_XDP_FATE_BAD_CHECKSUM];
	for (unsigned v = 0; v < SML_VERDICTS; v++)
		counters->verdicts[v] += traffic.fates[v];
}

const struct sml_dataplane_operations sml_dataplane_xdp = {
	.name = "xdp",
	.max_lanes = SML_XDP_LANES,
	.rounds = true,
	.open = xdp_open,
	.close = xdp_close,
	.describe = xdp_describe,
	.add_job = xdp_add_job,
	.start_job = xdp_start_job,
	.remove_job = xdp_remove_job,
	.misses_address = xdp_misses_address,
	.renew_address = xdp_renew_address,
	.window = xdp_window,
	.wants_single_packets = xdp_wants_single_packets,
	.job_counters = xdp_job_counters,
	.slot_states = xdp_slot_states,
	.set_parent = xdp_set_parent,
	.probe_parent = xdp_probe_parent,
	.parent_lanes = xdp_parent_lanes,
	.misses_parent = xdp_misses_parent,
	.counters = xdp_counters,
};
