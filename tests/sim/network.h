/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A virtual clock, an agenda of events, and a network that loses, duplicates, reorders,
 * delays and corrupts packets. Nothing here knows the protocol.
 */
#ifndef SML_SIM_NETWORK_H
#define SML_SIM_NETWORK_H

#include "core/wire.h"
#include "sim/world.h"

enum sim_event_kind {
	SIM_TO_SWITCH, /* a packet arrives at a switch of a stripe */
	SIM_TO_RANK,   /* a packet arrives at a rank */
	SIM_WAKE,      /* a rank checks its timers and calls */
	SIM_DEATH,     /* the switches die */
	SIM_RESUME,    /* a rank has noticed the death, or the next switch is ready */
	SIM_RANK_DIES,
	SIM_ABORT, /* a rank learns that another rank has died: its calls fail */
	SIM_LEAF   /* a leaf takes the new epoch */
};

struct sim_event {
	uint64_t at_ns;
	uint64_t order; /* equal times: the first in is the first out */
	enum sim_event_kind kind;
	uint16_t rank;
	uint16_t node; /* the switch in the stripe's tree */
	uint8_t stripe, shard;
	bool is_served; /* its switch has spent its time on it */
	bool at_port;	/* it has crossed the sender's link, and waits for the receiver's */
	uint32_t detail;
	uint16_t length;
	struct sim_packet *packet;
};

struct sim_packet {
	struct sim_packet *next;
	uint8_t bytes[SML_MAX_PACKET_BYTES] __attribute__((aligned(8)));
};

/* One direction of the cable of a rank or a leaf, and the time that its end needs per packet. */
struct sim_link {
	uint64_t busy_until_ns;
	uint64_t packet_ns;
	uint64_t least_ns; /* no packet occupies it for less */
	bool never_doubles;
};

struct sim_network {
	const struct sim_world *world;
	struct gen gen;
	bool faults; /* off in the last phase */
	uint64_t now_ns;
	uint64_t order;
	struct sim_event *events; /* a heap by (at_ns, order) */
	size_t n_events, capacity;
	struct sim_packet *free_packets;
	uint64_t sent, lost, duplicated, delayed, corrupted, overflowed, arrived;
};

void sim_network_init(struct sim_network *network, const struct sim_world *world);
void sim_network_fini(struct sim_network *network);

/* Add an event without a packet. */
void sim_network_plan(struct sim_network *network, uint64_t at_ns, enum sim_event_kind kind,
		      uint32_t rank, uint32_t detail);

/* Send bytes over a link. `like` gives the destination: kind, rank, stripe and shard. */
void sim_network_send(struct sim_network *network, struct sim_link *link,
		      const struct sim_event *like, const void *bytes, size_t length);

/*
 * Send bytes over the first of two links, without faults. They come back as an event that is
 * at_port, which sim_network_send_on() sends over the second link.
 */
void sim_network_send_to_port(struct sim_network *network, struct sim_link *link,
			      const struct sim_event *like, const void *bytes, size_t length);
void sim_network_send_on(struct sim_network *network, struct sim_link *link,
			 struct sim_event *event);

/* Send a packet to the rank itself: nothing happens to it on the way. */
void sim_network_hand_over(struct sim_network *network, const struct sim_event *like,
			   const void *bytes, size_t length, uint64_t at_ns);

/* Take the next event and advance the clock. False: there is no event. */
bool sim_network_next(struct sim_network *network, struct sim_event *event);

/* Let an event that was taken happen again, later. */
void sim_network_postpone(struct sim_network *network, struct sim_event *event, uint64_t at_ns);

/* Release an event's packet. */
void sim_network_done(struct sim_network *network, struct sim_event *event);

#endif
