/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An attacker who sees everything but cannot know a cookie or a tag. The attacker has the
 * job's number, epoch, ranks, slots and uses. If the kernel allows reading raw packets
 * (CAP_NET_RAW), the attacker also sees every packet of the job. Packets to the switch come
 * from the attacker's addresses or, with that capability, from the workers' addresses.
 * Packets to the workers come from the switch's address.
 *
 * The invariant: no packet from the attacker has a correct key of 64 bits.
 */
#ifndef SML_TESTS_ATTACK_H
#define SML_TESTS_ATTACK_H

#include <stdbool.h>
#include <stdint.h>

#define ATTACK_SOCKETS 8
#define ATTACK_WORKERS 16

/* What the attacker knows of the job. Addresses are 127.0.0.1. */
struct attack_target {
	uint32_t job_number, epoch;
	uint32_t n_jobs; /* stripes of the job have successive numbers */
	uint16_t switch_port;
	uint16_t worker_ports[ATTACK_WORKERS];
	unsigned n_workers;
	uint8_t n_ranks;
	uint16_t slots, lanes;
};

struct attack_report {
	uint64_t to_switch, to_workers; /* packets sent */
	uint64_t of_seen;		/* of these, mutations of packets that were seen */
	uint64_t seen;			/* packets of the job that were seen */
	uint64_t spoofed_to_workers;
	uint64_t answers;	  /* packets that the attacker received */
	uint64_t strange_answers; /* packets of the switch to receivers other than workers */
	bool raw;		  /* it had the right to spoof and to see packets */
};

/*
 * Send n packets in at most this many seconds. A tenth of them is sent in any case, within
 * at most two minutes. All actions follow from the seed and from what the attacker sees.
 */
void attack(const struct attack_target *target, uint64_t seed, uint64_t n, unsigned seconds,
	    struct attack_report *report);

#endif
