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
 * A leaf learns of a job when all ranks are here, so there it begins in PROBING, and only has the
 * members that are behind the leaf: what becomes of it is decided at the root (states/parent.c).
 *
 * The invariant: a job in PROBING or later has all its members, slots in the dataplane, and a
 * number by which packets name it. At a leaf, it may still wait for slots of ended jobs.
 */
#ifndef SML_JOB_MEMBERS_JOB_H
#define SML_JOB_MEMBERS_JOB_H

#include "core/resume.h"
#include "job/common/ranks.h"
#include "job/common/waits.h"
#include "job/peer/peer.h"
#include "switchml.h"

#define SML_VERSION_BYTES 32
/* A peer's own text within a text. */
#define SML_REASON_BYTES  300
#define SML_MACHINE_BYTES 128
#define SML_HOST_TOKEN	  16

/* By Join.process and Join.time_ns. */
struct sml_asked {
	uint64_t process, time_ns;
};

/* A rank. While ranks gather, one that is not here is zeroed. */
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
	uint64_t after;		 /* the tag of the job that it ran in before; 0: none */
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
	/* As it last told: what its stripe has done; and what it has moved itself, and when. */
	SmlControl__StripeStatus served;
	SmlControl__Traffic traffic;
	uint64_t traffic_told_ns; /* 0 if never */
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
	SmlControl__Call call;	     /* only its numbers; zeroed if the rank knows no such call */
};

/* A membership that this switch has decided on: job/join/decide.c. */
struct sml_decision {
	uint64_t after; /* the tag of the job that it follows */
	uint32_t number;
	uint32_t n, *before;	 /* of each rank, 1 plus the rank that it had there; 0 if none */
	struct sml_asked *asked; /* of each rank */
};

/* ---- the parts of a job ---- */

/*
 * What all ranks must have in common: the first one's Join sets it, and one with other terms is
 * refused. Only when all are here, `shards` becomes the least of all ranks', and `stripes` is
 * chosen where ranks have the slots.
 */
struct sml_job_terms {
	char version[SML_VERSION_BYTES]; /* of the library */
	uint32_t shards;
	uint32_t most_shards; /* the number that slots were reserved for */
	uint32_t head_slots, data_slots, stripe, stripes;
	uint32_t wire;	   /* enum sml_wire */
	uint64_t switches; /* Join.switches */
	bool no_tickets;
};

/*
 * Its ranks. While they gather, n of them have a peer, and `first` is one of these; from PROBING
 * on, n is n_ranks, and one without a peer has asked to leave. At a leaf, n are behind it when the
 * job begins there, and others have no peer. n_ready and n_leaving count their flags.
 */
struct sml_job_members {
	struct sml_member *of; /* of each rank */
	uint16_t n, n_ready, n_leaving;
	uint16_t first;			  /* it has set the terms */
	struct sml_ranks came;		  /* have joined, gone or not */
	char refused[SML_SENTENCE_BYTES]; /* why the last that tried was */
};

/*
 * Which job its ranks come from, and who must come: `decision` says so if the switch has chosen the
 * members, and `list` if a program has.
 */
struct sml_job_elastic {
	/* Its ranks' last job, as the first that had one said; "": none. Its ranks. */
	char follows[SML_NAME_BYTES];
	uint32_t follows_ranks, changes; /* changes: of members, this job included */
	uint64_t after;			 /* Join.follows_tag; 0: it follows no job */
	/* Whose ranks the members were, as they say: join/past_ranks.c. */
	struct {
		uint64_t tag; /* of the job that they left; 0: nobody has said */
		struct sml_ranks ranks;
		/*
		 * Those that had gone, and are missed from then on only. 0: no time. Of them, those
		 * that have been here, and left by themselves.
		 */
		struct sml_ranks absent, left;
		uint64_t misses_ns;
	} list;
	struct sml_decision *decision; /* NULL if the switch has not */
};

/* What a dataplane knows as one rank: a rank, ranks that share memory, or those behind a leaf. */
struct sml_child {
	uint16_t first_rank, n_ranks;
	uint16_t first_of_host;	   /* of ranks that share memory; of a rank alone, itself */
	struct sml_branch *branch; /* a leaf, NULL once it is gone; NULL for ranks */
	struct sml_ranks ranks;	   /* behind it */
	bool ready;
	uint32_t lanes;		/* once ready: that its path carries */
	bool has_job;		/* it is a leaf, and serves the job */
	struct sml_waits waits; /* which of its ranks the leaf's slots wait for, as it last said */
	bool asked;		/* it was asked for its waits, and the answer is due */
	bool answered;		/* waits is its answer, and recent enough to blame ranks by it */
	bool silent;		/* it did not answer in time, and has sent none since */
	uint64_t asked_ns;	/* when it was asked last */
};

/* Its slots at this switch, and its children there: see pool.c. */
struct sml_job_pool {
	struct sml_pool_rules rules;
	bool has_slots;		 /* the dataplane has the job */
	uint64_t tries_again_ns; /* to add it: the slots of ended jobs are not free yet; or 0 */
	uint8_t n_children, n_leaves, n_leaves_ready;
	bool adds_parts; /* some of several children stand for several ranks, or have done so */
	struct sml_child children[SML_MAX_CHILDREN];
	bool leaves_queried; /* for somebody who is not told yet */
};

/* Ranks that share memory: `apart` holds from PROBING on, shares_memory from RUNNING on. */
struct sml_job_hosts {
	bool shares_memory; /* each of its ranks does, with those of its machine */
	bool apart;	    /* ranks of one machine cannot share memory: each sends its own */
};

/* Stripes that the ranks have: job/members/peers.c. From PROBING on; NULL if it has a switch. */
struct sml_job_stripes {
	uint64_t *secrets;
	uint64_t *waited_ms; /* by stripe and rank: the others have waited for it there */
};

/*
 * Resuming after another switch's death. If it runs, each member that is here has reported. The
 * plans are made when all are here, and from PROBING on, no result is missing.
 */
struct sml_job_resume {
	bool runs;
	struct sml_resume_plan plans[SML_STREAMS];
	uint32_t n_missing;    /* results */
	size_t handed_bytes;   /* of results, to all ranks that lacked them */
	size_t reported_bytes; /* of all members' reports */
};

/* The n ranks that have died after they had asked to leave: an error only if a slot misses one. */
struct sml_job_departed {
	struct sml_ranks ranks;
	uint64_t looked_ns;
	uint16_t n;
	/* Those that a slot waited for at the last look; in shared memory, since then. */
	struct sml_ranks missed, host_misses;
	char why[SML_REASON_BYTES]; /* how the last did */
};

/* Two ranks disagree about `found`: then the job fails, with what both say, or without. */
struct sml_job_mismatch {
	struct sml_mismatch found;
	uint64_t since_ns; /* when its two ranks were asked for their calls; 0: none is */
	struct sml_reported_call calls[2];
};

/*
 * At a leaf: a peer, here or at a leaf of this one, whose messages go on to the parent. Its job and
 * rank are the peer's.
 */
struct sml_proxied {
	struct sml_numbered key;
	/* As it said with its Join. */
	bool resumes;
	uint32_t pid, stripe, stripes;
	char host[SML_NAME_BYTES];
};

/* At a leaf: what the job is to the parent, as a session is to a rank. */
struct sml_job_parent {
	uint16_t data_port; /* the parent's */
	bool knows_ready;   /* that all of its paths are known */
	uint32_t rounds;    /* of probes */
	uint64_t probed_ns, answered_ns;
	/* Do the parent's results come? As of the last look; see core/renewal.h. */
	struct sml_job_renewal {
		uint64_t looked_ns, sent_again, results;
		uint32_t n_silent, number;
	} renewal;
};

/* How it ends, noted before it is closed. */
struct sml_job_end {
	char how[2 * SML_SENTENCE_BYTES]; /* for logs; "": it ended well */
	bool lacks_room, planned;	  /* no room: it may come again; its members change */
};

struct sml_job {
	struct sml_jobs *jobs;
	struct sml_job *next_over; /* once it is over */
	char name[SML_NAME_BYTES];
	uint32_t place; /* in jobs->jobs */
	enum sml_job_state state;
	uint16_t n_ranks;
	uint64_t begun_ns;    /* to gather, to hand over, or to probe */
	uint64_t liveness_ns; /* when counters were looked at */
	uint64_t membership;  /* a secret of its ranks, in all epochs */
	uint64_t report_tag;  /* of this epoch, in reports */
	struct {
		uint64_t sent_ns; /* when ranks were told who is missing */
		bool changed;	  /* since then */
	} waiting;
	struct sml_job_terms terms;
	struct sml_job_members members;
	struct sml_job_elastic elastic;
	struct sml_job_pool pool; /* its children: from PROBING on */
	struct sml_job_hosts hosts;
	struct sml_job_stripes stripes;
	struct sml_job_resume resume;
	struct sml_job_departed departed;
	struct sml_job_mismatch mismatch;
	struct sml_job_parent parent;
	struct sml_job_end end;
};

/* The job after this one, which may have ended in this input, or the first; NULL: there is none. */
static inline struct sml_job *sml_jobs_next(const struct sml_jobs *jobs, const struct sml_job *job)
{
	uint32_t place = job != NULL ? job->place + 1 : 0;

	while (place < SML_MAX_JOBS && jobs->jobs[place] == NULL)
		place++;
	return place < SML_MAX_JOBS ? jobs->jobs[place] : NULL;
}

/* Does it have slots, or at a leaf wait for them? */
static inline bool sml_job_has_begun(const struct sml_job *job)
{
	return job->pool.has_slots || sml_jobs_is_leaf(job->jobs);
}

/* Of those that do, the one with this number; NULL: there is none. */
static inline struct sml_job *sml_job_find(const struct sml_jobs *jobs, uint32_t number)
{
	struct sml_job *job = jobs->jobs[number % SML_MAX_JOBS];

	return job != NULL && sml_job_has_begun(job) && job->pool.rules.job == number ? job : NULL;
}

/* How many slots it holds, or its rules name. */
static inline uint32_t sml_job_pool_slots(const struct sml_job *job)
{
	return (uint32_t)job->pool.rules.head_slots + job->pool.rules.data_slots;
}

/* Two chunks a slot of the largest job that there can be. */
#define SML_MAX_PLAN (2 * SML_MAX_SLOTS)

#endif
