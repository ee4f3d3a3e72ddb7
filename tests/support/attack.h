/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An attacker who sees everything but cannot know a cookie or a tag: it has the
 * job's number, epoch, ranks, slots and uses, and, where the kernel lets it read
 * raw packets (CAP_NET_RAW), every packet of the job. What it sends to the switch
 * comes from addresses of its own, or, with that right, from the workers'; and to
 * the workers from the switch's.
 *
 * The invariant: no packet that it sends has a key of 64 bits that would be right.
 */
#ifndef SML_TESTS_ATTACK_H
#define SML_TESTS_ATTACK_H

#include <stdbool.h>
#include <stdint.h>

#define ATTACK_SOCKETS 8
#define ATTACK_WORKERS 16

/* What it knows of the job that it attacks. Addresses are 127.0.0.1. */
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
	uint64_t to_switch, to_workers; /* packets that left */
	uint64_t of_seen;		/* of these, mutations of packets that it saw */
	uint64_t seen;			/* packets of the job */
	uint64_t spoofed_to_workers;
	uint64_t answers;	  /* packets that came to it */
	uint64_t strange_answers; /* packets of the switch to others than workers */
	bool raw;		  /* it could spoof and see */
};

/*
 * Send n packets, in at most so many seconds; a tenth of them takes as long as it takes, two
 * minutes at most. All it does follows from the seed and what it sees.
 */
void attack(const struct attack_target *target, uint64_t seed, uint64_t n, unsigned seconds,
	    struct attack_report *report);

#endif
