/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A dataplane, as the control plane sees it: it holds jobs' slots and answers packets. Bytes in,
 * core call, verdict out: nothing else. To add one, fill in this table (switch/udp/dataplane.c is
 * the model) and name it in cmd/switch/options.c.
 *
 * All calls come from the control thread. A call returns when every thread of the dataplane has
 * seen what it changed, so memory can be freed after it. No call waits for the kernel, because
 * strangers can cause all of these calls.
 */
#ifndef SML_JOB_DATAPLANE_H
#define SML_JOB_DATAPLANE_H

#include "core/pool.h"
#include "net/address.h"

/* Job numbers are random, except the low bits, which are the job's place. */
#define SML_MAX_JOBS 256

struct sml_dataplane;
struct sml_dataplane_config; /* switch/dataplane.h: what open() needs to know */

/*
 * Two ranks have different digests for a use of a slot. From a dataplane: two children.
 */
struct sml_mismatch {
	uint32_t job;
	uint16_t slot;
	uint32_t use, chunk;
	uint16_t ranks[2];
};

/* What the newest use of a slot lacks. */
struct sml_slot_progress {
	uint16_t slot;
	uint32_t use;
	uint64_t missing; /* bit c: child c has not contributed; 0 if complete */
};

struct sml_job_counters {
	uint64_t verdicts[SML_VERDICTS];
	uint64_t contributions[SML_MAX_CHILDREN];
	uint64_t resends[SML_MAX_CHILDREN];
	uint64_t waited_ns[SML_MAX_CHILDREN]; /* how long the others waited for it: sml_waited() */
};

static inline uint64_t sml_job_counters_waited_ms(const struct sml_job_counters *counters,
						  unsigned child)
{
	return counters->waited_ns[child] / 1000000u;
}

struct sml_dataplane_counters {
	uint64_t verdicts[SML_VERDICTS]; /* of packets that belong to no job, too */
	uint64_t packets_received, packets_sent;
	uint64_t bytes_received, bytes_sent;
	uint64_t probes;
	uint64_t socket_drops;	/* the kernel's buffers were full */
	uint64_t send_drops;	/* the socket was full for too long */
	uint64_t bad_checksums; /* if the kernel has not checked them */
};

struct sml_dataplane_operations {
	const char *name;
	/* There are no slots here: sml_dataplane_ranks, without open, close, and jobs. */
	bool ranks_have_slots;
	uint32_t max_lanes; /* of a job; 0 if as the packet format has it */
	/* 0, or a negative number, and sml_error_last() says why. */
	int (*open)(struct sml_dataplane **opened, const struct sml_dataplane_config *config);
	void (*close)(struct sml_dataplane *dataplane);
	/*
	 * Returns 0, -ENOMEM, -ENOSPC (the free slots are fragmented), or -EAGAIN (there will be
	 * room in a moment, when packets of ended jobs can no longer reach it). Probes are answered
	 * from now on.
	 */
	int (*add_job)(struct sml_dataplane *dataplane, const struct sml_pool_rules *rules);
	/*
	 * All addresses are known, so contributions are accepted from now on. Returns 0 or a
	 * negative errno.
	 */
	int (*start_job)(struct sml_dataplane *dataplane, uint32_t job);
	void (*remove_job)(struct sml_dataplane *dataplane, uint32_t job);
	/*
	 * Why the child's address is not known, as the rest of a sentence that begins with
	 * the child; NULL if it is known. Without this operation, all addresses are known.
	 */
	const char *(*misses_address)(struct sml_dataplane *dataplane, uint32_t job, uint8_t child);
	/*
	 * From start_job on: the next probe of this shard of the child whose use is this number
	 * tells the child's address (core/renewal.h). NULL if addresses stay.
	 */
	void (*renew_address)(struct sml_dataplane *dataplane, uint32_t job, uint8_t child,
			      uint8_t shard, uint32_t number);
	/* For the ready line: "1 thread", "xdp (native) on eth0". */
	void (*describe)(struct sml_dataplane *dataplane, char *text, size_t bytes);
	/*
	 * How many packets of this size each of n_ranks may have in flight. NULL if each rank
	 * decides for itself.
	 */
	uint32_t (*window)(struct sml_dataplane *dataplane, uint32_t packet_bytes,
			   uint32_t n_ranks);
	/*
	 * Must workers send packets one by one, because super-packets (UDP_SEGMENT) can arrive here
	 * unsegmented? NULL if not.
	 */
	bool (*wants_single_packets)(struct sml_dataplane *dataplane);
	/*
	 * The lanes of every packet, from the list of lane counts: the ranks send only full
	 * packets. NULL for any count up to max_lanes, and short packets, too.
	 */
	uint32_t (*fixed_lanes)(struct sml_dataplane *dataplane);
	/* Does it refuse lanes of two int16 (SML_LANE_INT16_PAIR)? NULL if it takes them. */
	bool (*only_int32)(struct sml_dataplane *dataplane);
	/* Does it round sums of narrow lanes (core/rounding.h), unless it adds only int32? */
	bool rounds;
	/* Does it take packets without their lanes (SML_LANES_OMITTED)? */
	bool omits;
	/* Does it add lanes of floats (core/exact.h)? */
	bool floats;
	/* NULL if nothing is counted. */
	void (*job_counters)(struct sml_dataplane *dataplane, uint32_t job,
			     struct sml_job_counters *counters);
	/*
	 * The progress of all slots that have been used, at most n of them, in no order. Returns
	 * how many. Each thread looks at its slots of this job once. NULL if it has no slots.
	 */
	uint32_t (*slot_states)(struct sml_dataplane *dataplane, uint32_t job,
				struct sml_slot_progress *states, uint32_t n);
	/*
	 * For a leaf: where its parent is; sending a job's probes of this many lanes to the
	 * parent's data port, one from each socket; and the widest probe that has come back to all
	 * of them (0: none yet). renewal: the use of the probes. NULL: a leaf cannot use this
	 * dataplane.
	 */
	void (*set_parent)(struct sml_dataplane *dataplane, const union sml_sockaddr *parent);
	void (*probe_parent)(struct sml_dataplane *dataplane, uint32_t job, uint16_t port,
			     uint16_t lanes, uint32_t renewal);
	uint16_t (*parent_lanes)(struct sml_dataplane *dataplane, uint32_t job);
	/*
	 * Once a probe has come back: why the way to the parent is still not known, in the form of
	 * misses_address; NULL if it is known. Without this operation, it is known.
	 */
	const char *(*misses_parent)(struct sml_dataplane *dataplane, uint32_t job);
	/* NULL if nothing is counted. */
	void (*counters)(struct sml_dataplane *dataplane, struct sml_dataplane_counters *counters);
};

/* The dataplane of a control plane without slots: the ranks have the slots (job/members/peers.c).
 */
extern const struct sml_dataplane_operations sml_dataplane_ranks;

#endif
