/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One job of job/switch.h, as data, and its members. job/states/ decides what happens to it, and
 * job/tree/ what its leaves do.
 *
 *	            all ranks are here        all are ready         one has asked
 *	JOINING ----------------> PROBING ----------------> RUNNING -----> LEAVING -> gone
 *	   |  \                    ^  |                         |              |
 *	   |   +--> HANDING OVER --+  |                         |              |
 *	   +--------- resume.c -------+---- sml_job_fail() -----+--------------+
 *
 * The invariant: a job in PROBING or later has all its members, slots in the dataplane, and a
 * number by which packets name it.
 */
#ifndef SML_JOB_MEMBERS_JOB_H
#define SML_JOB_MEMBERS_JOB_H

#include "core/resume.h"
#include "job/common/ranks.h"
#include "job/members/pool.h"
#include "switchml.h"

#define SML_VERSION_BYTES 32
/* A peer's own text within a text. */
#define SML_REASON_BYTES  300
#define SML_MACHINE_BYTES 128
#define SML_HOST_TOKEN	  16

/* What a stripe has done so far. */
struct sml_served {
	uint64_t contributions, resends, duplicates, completed;
	uint64_t bytes_received, bytes_sent;
};

/* What a rank has moved so far, as it counts. */
struct sml_traffic {
	uint64_t packets_sent, packets_received;
	uint64_t bytes_sent, bytes_received;
	uint64_t retransmits_timeout, retransmits_fast;
	uint32_t link_mbits;
	uint64_t waited_ms; /* the ranks that share its memory have waited for it */
	uint64_t told_ns;   /* 0 if never */
};

/* By Join.process and Join.time_ns. */
struct sml_asked {
	uint64_t process, time_ns;
};

struct sml_member {
	struct sml_peer *peer; /* NULL if it is not here, or has left */
	struct sml_asked asked;
	char host[SML_NAME_BYTES];
	uint32_t pid;
	uint32_t lanes;		 /* that its path seems to carry; once ready, does carry */
	uint32_t shards;	 /* sockets that it has */
	uint32_t heartbeat_ms;	 /* silence that means death */
	uint32_t asked_ms;	 /* the heartbeat that it asked for: its own bound for the switch */
	uint64_t waits_until_ns; /* for the others to join */
	uint64_t heard_ns;	 /* when its connection ended: the time of its last message */
	uint64_t stalls_sent_ns;
	/* Its count on the data path (job/states/liveness.c), taken after its message at
	 * counted_at_ns.
	 */
	uint64_t contributions, counted_at_ns;
	bool ready, leaving, stalls_wanted;
	bool follows;	       /* it was in the job that this one follows */
	uint16_t before;       /* 1 plus its rank in elastic.list's job; 0: it was not in it */
	bool stalls_requested; /* about its own slots, and not answered yet */
	bool shards_set;       /* set by the user: it accepts no other number */
	/* Where it takes packets, if it has slots: 4 or 16 bytes; 0 for the control port's. */
	uint8_t address[16], address_bytes;
	bool is_local; /* on this host */
	uint32_t ports[SML_MAX_SHARDS];
	struct sml_served served; /* as it last told; and what it has moved itself */
	struct sml_traffic traffic;
	/* Which ranks it may share memory with, and where they find it: job/members/hosts.c. */
	uint8_t machine[SML_MACHINE_BYTES], machine_bytes; /* 0 if there is none */
	uint8_t host_token[SML_HOST_TOKEN];
	bool shares_memory;
	/*
	 * From PROBING on: the child that it is behind; of the ranks on its machine, behind the
	 * same switch, the lowest; of the lowest, how many there are.
	 */
	uint8_t child;
	uint16_t first_of_host, n_of_host;
	/* The chunks that it has and lacks, if it resumes. In protobuf-c's memory. */
	SmlControl__Join *resume;
};

/* A call as its rank describes it, for two ranks that disagree. */
struct sml_reported_call {
	char text[SML_REASON_BYTES]; /* "" until the rank has answered */
	/* As control.proto's Call has them; 0 if the rank knows no such call. */
	uint64_t collective, number, count, type, op, root, wire;
	bool residual;
};

/* A membership that this switch has decided on: job/join/decide.c. */
struct sml_decision {
	uint64_t after; /* the tag of the job that it follows */
	uint32_t number;
	uint32_t n, *before;	 /* of each rank, 1 plus the rank that it had there; 0 if none */
	struct sml_asked *asked; /* of each rank */
};

struct sml_job {
	struct sml_jobs *jobs;
	struct sml_job *next_over; /* once it is over */
	char name[SML_NAME_BYTES];
	uint32_t place; /* in jobs->jobs */
	enum sml_job_state state;
	uint16_t n_ranks;
	struct sml_member *members; /* n_ranks */
	struct {
		uint16_t n, n_ready, n_leaving, first; /* first: the rank that set the terms */
		struct sml_ranks came;		       /* the ranks that have joined, gone or not */
		char refused[SML_SENTENCE_BYTES];      /* why the last that tried was refused */
	} joined;
	uint64_t begun_ns, waiting_sent_ns, liveness_ns;
	/* The terms that all ranks must share. */
	struct {
		char version[SML_VERSION_BYTES]; /* of the library */
		uint32_t shards;		 /* the least of all ranks */
		uint32_t most_shards;		 /* the number that slots were reserved for */
		uint32_t head_slots, data_slots, stripe, stripes;
		uint32_t wire;	   /* enum sml_wire */
		uint64_t switches; /* Join.switches */
		bool no_tickets;
	} terms;
	struct {
		/* Its ranks' last job, as the first that had one said; "": none. Its ranks. */
		char follows[SML_NAME_BYTES];
		uint32_t follows_ranks, changes; /* changes: of members, this job included */
		uint64_t after;			 /* Join.follows_tag; 0: it follows no job */
		/* Whose ranks the members were, as they say: join/listed.c. */
		struct {
			uint64_t tag; /* of the job that they left; 0: nobody has said */
			struct sml_ranks ranks;
			/*
			 * Those that had gone, and are missed from then on only. 0: no time. Of
			 * them, those that have been here, and left by themselves.
			 */
			struct sml_ranks absent, left;
			uint64_t misses_ns;
		} list;
		struct sml_decision *decision; /* NULL if its ranks named its members */
	} elastic;
	uint64_t membership;	  /* a secret of its ranks, in all epochs */
	uint64_t report_tag;	  /* of this epoch, in reports */
	struct sml_job_pool pool; /* its children: from PROBING on */
	struct {
		char how[SML_SENTENCE_BYTES + 64]; /* for logs; "": it ended well */
		bool lacks_room, planned; /* no room: it may come again; its members change */
	} end;
	struct {
		struct sml_mismatch found;
		uint64_t since_ns; /* when its two ranks were asked for their calls; 0: none is */
		struct sml_reported_call calls[2];
	} mismatch;
	/* Ranks that have died after they had asked to leave. */
	struct {
		struct sml_ranks ranks;
		uint64_t looked_ns;
		uint16_t n;
		/* Those that a slot waited for at the last look; in shared memory, since then. */
		struct sml_ranks missed, host_misses;
		char why[SML_REASON_BYTES]; /* how the last did */
	} departed;
	uint64_t *secrets;   /* of stripes that the ranks have: job/members/peers.c */
	uint64_t *waited_ms; /* there, by stripe and rank: the others have waited for it */
	bool shares_memory;  /* each of its ranks does, with those of its machine */
	bool apart;	     /* ranks of one machine cannot share memory: each sends its own */
	/* Resuming after another switch's death. */
	struct {
		bool runs;
		struct sml_resume_plan plans[SML_STREAMS];
		uint32_t n_missing;    /* results */
		size_t handed_bytes;   /* of results, to all ranks that lacked them */
		size_t reported_bytes; /* of all members' reports */
	} resume;
	bool waiting_changed; /* since waiting_sent_ns */
};

/* Two chunks a slot of the largest job that there can be. */
#define SML_MAX_PLAN (2 * SML_MAX_SLOTS)

#endif
