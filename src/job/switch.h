/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The jobs of one switch: which ranks may join, which slots a job has, what a death does, and when.
 * Sans I/O: no sockets, no clock, no threads. The switch's control server drives it with sockets
 * (switch/control/), a simulator with its own network and clock, a fuzzer with bytes.
 *
 *	in    a message of a peer        sml_jobs_message()
 *	      a connection has ended     sml_jobs_lost()
 *	      two ranks disagree         sml_jobs_mismatch()
 *	      the deadline has passed    sml_jobs_tick()
 *	      a leaf's parent is reached sml_jobs_attach()
 *	out   send, end, log, randomness struct sml_jobs_output
 *	      a job's slots              struct sml_dataplane_operations
 *	      the next deadline          sml_jobs_deadline()
 *
 * A driver embeds one struct sml_peer in each of its connections, and finds the connection of a
 * peer by its place in it. Outputs are called from within inputs, and must not call back in: a
 * driver that loses a connection while it sends remembers that, and reports it in its next turn.
 *
 * Each input has the time, nanoseconds of any monotonic clock, which never runs backwards. Memory
 * comes from malloc(); without memory, a job fails or a peer is refused, with a text.
 *
 * The invariant: a peer is in at most one job, and each job knows exactly the peers that know it.
 * Nothing that a peer does or fails to do ends the process.
 */
#ifndef SML_JOB_SWITCH_H
#define SML_JOB_SWITCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control.pb-c.h"
#include "job/common/ranks.h"
#include "job/common/rules.h"
#include "job/common/table.h"
#include "job/dataplane.h"

#define SML_SECOND_NS 1000000000ull
/* The longest time between two checks of deadlines. */
#define SML_TICK_NS 100000000ull
/* While anything depends on the switch, the longest time between two inputs. */
#define SML_BEAT_NS	(4 * SML_TICK_NS)
#define SML_FAILED_JOBS 256
/* A sentence for people. */
#define SML_SENTENCE_BYTES 512
#define SML_NAME_BYTES	   128

struct sml_job;
struct sml_jobs;

enum sml_job_state {
	SML_JOB_JOINING,
	SML_JOB_HANDING_OVER,
	SML_JOB_PROBING,
	SML_JOB_RUNNING,
	SML_JOB_LEAVING,
	SML_JOB_STATES
};

/* As a status has it. NULL for SML_JOB_STATES. */
const char *sml_job_state_name(enum sml_job_state state);

/* What a rank that was out of reach learns when it comes to resume. */
struct sml_failed_job {
	uint64_t tag;
	int error;
	char text[SML_SENTENCE_BYTES];
	bool has_lost; /* `lost` is the rank whose connection the switch lost */
	uint16_t lost;
	/* For those who ask to be members of the next one: job/join/decide.c. */
	uint16_t n_ranks;
	bool ran;	    /* all ranks were ready */
	bool was_elsewhere; /* it ran at another switch, and was to go on here, but did not */
	bool decided;	    /* another membership has been formed of its ranks */
	/*
	 * Such memberships have ended here before they ran. Each may begin elsewhere if all of its
	 * members go there. These ranks are in all of them.
	 */
	bool has_successors;
	struct sml_ranks successors;
	/* A rank goes on as a member of a job that the caller named; "": none, as far as known. */
	char list[SML_NAME_BYTES];
	uint16_t lister;
	bool list_stays;       /* or did so elsewhere, or also as a member of another such job */
	uint32_t decisions;    /* the number of the last one; also of those that never ran */
	struct sml_ranks gone; /* ranks that have died, or were leaving */
	/* For their next job: states/end.c. */
	struct sml_ranks awaited;	 /* ranks that may go on */
	bool is_used;			 /* a next job has run: late ranks hold nothing */
	uint32_t heartbeat_ms;		 /* the longest of its ranks */
	uint64_t kept_until_ns;		 /* 0: nothing is kept */
	uint32_t kept_slots, kept_lacks; /* kept; and wanted in addition */
};
struct sml_applicant;
struct sml_decision;
struct sml_branch;
struct sml_remote;
struct sml_proxied;

/* A connection, as the jobs see it. Zeroed, except the driver's part. */
struct sml_peer {
	/*
	 * Set by the driver before the first message: the peer's address; 0 bytes: not an IP
	 * address.
	 */
	uint8_t address[16], address_bytes;
	bool is_local; /* on this host */
	/* The jobs'. */
	uint64_t heard_ns;     /* its last message; or, from the driver, when it came */
	uint32_t heartbeat_ms; /* of its last Join; 0: it has sent none */
	/* NULL if it has not joined yet, or no longer; at a leaf, if it was not admitted yet. */
	struct sml_job *job;
	struct sml_applicant *applicant; /* it asks to be a member; NULL if it does not */
	uint16_t rank;
	/* It was that rank of a job that has failed here: states/end.c. 0: it was not. */
	uint64_t survived, stays_until_ns; /* the job's tag */
	struct sml_peer *next_survivor;
	/* After an absence of the switch itself: job/input/jobs.c. */
	uint64_t missed_ns;	     /* how long it was; 0: this peer is not doubted */
	uint64_t again_ns, proof_ns; /* its first message since; the next counts so much later */
	/* In a tree: job/tree/branches.c and job/tree/leaf.c. */
	struct sml_branch *branch;   /* it is a leaf of this switch */
	struct sml_branch *via;	     /* it is at that leaf, and has no connection to this switch */
	struct sml_proxied *proxied; /* this switch is a leaf: its messages go on to the parent */
	bool is_parent;		     /* this switch is its leaf */
};

/* Whether anything depends on the peer. If not, it is a stranger. */
bool sml_peer_is_member(const struct sml_peer *peer);

/* Whether the peer is a member of a job that all ranks have joined. */
bool sml_peer_runs(const struct sml_peer *peer);

/*
 * Whether the peer is a member that may be silent, because its job is over: only its connection
 * shows that it is still there.
 */
bool sml_peer_may_be_silent(const struct sml_peer *peer);

/* What a line of the log is about. */
enum sml_jobs_level {
	SML_JOBS_INFO,	  /* what jobs do */
	SML_JOBS_WARNING, /* what an operator may have to see to */
};

struct sml_jobs_output {
	/* Queue a message. Returns 0, -ENOMEM, or -EMSGSIZE if it is too long for one. */
	int (*send)(struct sml_peer *peer, const SmlControl__Envelope *message);
	/*
	 * Close it once all is sent and the peer has had time to read it. Its messages are ignored
	 * from now on.
	 */
	void (*end)(struct sml_peer *peer);
	/*
	 * Whether the peer reads what it is sent. A peer that does not read gets only necessary
	 * messages.
	 */
	bool (*listens)(const struct sml_peer *peer);
	/* Random numbers for secrets. */
	uint64_t (*random_u64)(void *context);
	/* A line for the switch's operator. */
	void (*log)(void *context, enum sml_jobs_level level, const char *line);
};

/*
 * The tree of switches, as jobs see it: who makes room. tree/ fills in this table, and calls jobs
 * directly; jobs reach the tree only here, their leaves through their pools, and the parent as a
 * peer.
 */
struct sml_tree_events {
	/*
	 * At a leaf: close the connection of a rank that waits for others and does not resume.
	 * Returns false if there is none.
	 */
	bool (*displace)(struct sml_jobs *jobs);

	/* Close the oldest leaf without ranks and slots. Returns false if there is none. */
	bool (*close_idle)(struct sml_jobs *jobs);
};

extern const struct sml_tree_events sml_tree_events;

struct sml_jobs_config {
	uint32_t max_slots, max_jobs;
	uint32_t max_members; /* of all jobs together; 0 for any number */
	/* If it serves only one job: its name and size; NULL if it serves any job. */
	const char *only_job;
	bool only_elsewhere; /* that job is at another switch: tell ranks that come so */
	uint32_t only_world_size;
	uint32_t heartbeat_ms; /* the most that a worker may ask for */
	/* Where ranks have the slots: how many are enough for ranks of one host; 0 for any. */
	uint32_t local_stripes;
	uint16_t data_port;
	/* In a tree. */
	const char *name;   /* this switch's, for texts: "rack7:28500" */
	const char *parent; /* where the parent is, for texts; NULL: this switch is no leaf */
	int debug;
};

/* A connection between two switches, at either end. */
struct sml_switch_link {
	struct sml_peer *peer;	/* the other switch; NULL if it is not connected */
	uint64_t serves_ns;	/* since when there are ranks: silence means more then */
	struct sml_table ranks; /* below it, by the numbers that the lower switch has chosen */
};

/* A switch that is a leaf: job/tree/leaf.c. */
struct sml_leaf {
	struct sml_switch_link up; /* to the parent; its ranks are struct sml_proxied */
	uint32_t level;		   /* 0 if the parent has not accepted it yet */
	uint64_t home;		   /* drawn; the root knows by it who is connected here */
	uint16_t lanes;		   /* that the path to the parent seems to take */
	uint64_t pinged_ns;
	char why[SML_SENTENCE_BYTES]; /* not attached: what the parent said last */
};

/* The room for lines of one kind in the log: n_used of them at at_ns. n_counted found none. */
struct sml_log_room {
	uint64_t at_ns;
	uint32_t n_used, n_counted;
};

#define SML_LOG_MORE_BYTES  32
#define SML_REFUSALS_LOGGED 32 /* at once, of a kind */

/* Is there room for a line? Writes its end: "", or " (7 more before)", which found none. */
bool sml_log_room_take(struct sml_log_room *room, uint32_t n_most, uint64_t now_ns,
		       char more[SML_LOG_MORE_BYTES]);

struct sml_jobs {
	/* Set by the driver, before sml_jobs_init(). */
	struct sml_jobs_config config;
	const struct sml_jobs_output *output;
	void *context; /* of output->random_u64 and log */
	const struct sml_dataplane_operations *operations;
	struct sml_dataplane *dataplane;
	/* The driver's own, for the status. */
	uint64_t n_refused, n_evicted;

	/* Set by sml_jobs_init(). */
	const struct sml_tree_events *tree;
	uint64_t now_ns; /* of the input that is being handled */
	uint64_t begun_ns;
	uint64_t away_ns, back_ns; /* how long its last absence was; and when it ended */
	struct sml_job *jobs[SML_MAX_JOBS];
	struct sml_job *over; /* jobs that can be freed after this input */
	uint32_t n_jobs, n_members, slots_in_use;
	/* Places of jobs whose members change; their slots are in use, and they want more. */
	uint32_t n_kept, kept_lack;
	/* The last rank that was refused while no job of its name waited for it. */
	struct {
		char job[SML_NAME_BYTES], text[SML_SENTENCE_BYTES];
		uint32_t rank;
		uint64_t at_ns;
	} turned_away;
	/*
	 * The last job whose ranks disagreed before all had come, and the error of all of them.
	 * Those that come a little later get it, too; a rank that has it and comes again is of
	 * another run, and the job may begin.
	 */
	struct {
		char job[SML_NAME_BYTES], text[SML_SENTENCE_BYTES];
		struct sml_ranks has_it;
		uint64_t at_ns;
		int error;
	} disagreement;
	/* Jobs that failed here, newest last: their ranks must not resume here. */
	struct sml_failed_job failed[SML_FAILED_JOBS];
	uint32_t n_failed;
	struct sml_log_room failures, refusals;
	char refusal[SML_SENTENCE_BYTES]; /* the reason that was logged last, at refused_ns */
	uint64_t refused_ns;
	/* Those who ask to be members, the first first: job/join/decide.c. */
	struct sml_applicant *applicants;
	struct sml_decision *deciding; /* of the job that they join now */
	struct sml_peer *survivors;    /* of jobs that have failed: states/end.c */
	/* In a tree. */
	struct sml_branch *branches; /* the leaves of this switch */
	uint64_t leaves_logged_ns;   /* n_leaves_logged were logged in the second from here */
	uint32_t n_leaves_logged;
	struct sml_remote *ended; /* ranks at leaves that can be freed after this input */
	struct sml_leaf leaf;
};

/* The driver's members are set, the others zero. */
void sml_jobs_init(struct sml_jobs *jobs, uint64_t now_ns);

/*
 * Checks the first bytes of a message. Returns NULL if the message may be unpacked. Otherwise
 * returns text, which has the reason, and the caller must end the connection without unpacking the
 * message.
 */
const char *sml_jobs_reject(const struct sml_jobs *jobs, const struct sml_peer *peer,
			    const struct sml_head *head, char *text, size_t bytes);

/* Handles a message. This may refuse the peer, end its connection, or fail its job. */
void sml_jobs_message(struct sml_jobs *jobs, struct sml_peer *peer,
		      const SmlControl__Envelope *message, uint64_t now_ns);

/*
 * At a leaf: the peer is its parent, as its driver has found out; its messages come next. lanes:
 * that the path there seems to take.
 */
void sml_jobs_attach(struct sml_jobs *jobs, struct sml_peer *peer, uint16_t lanes, uint64_t now_ns);

/* A connection has ended: `why` says how. The peer no longer belongs to a job. */
void sml_jobs_lost(struct sml_jobs *jobs, struct sml_peer *peer, const char *why, uint64_t now_ns);

/*
 * The dataplane reports that two ranks disagree: ask both for their calls, and then tell all ranks.
 */
void sml_jobs_mismatch(struct sml_jobs *jobs, const struct sml_mismatch *mismatch, uint64_t now_ns);

/* Does what is due; nothing before the deadline. */
void sml_jobs_tick(struct sml_jobs *jobs, uint64_t now_ns);

/*
 * When there is something to do unless a message comes first; UINT64_MAX: nothing. An input that
 * comes much later shows that the switch itself did not run (job/input/jobs.c).
 */
uint64_t sml_jobs_deadline(const struct sml_jobs *jobs);

/* The most slots that a job with packets of this many lanes gets, unless it asks for a number. */
struct sml_slot_counts {
	uint32_t head, data;
};
struct sml_slot_counts sml_slots_most(uint32_t lanes);

/*
 * Makes a packed Status of this moment, which the caller frees. Returns NULL if there is no memory.
 */
uint8_t *sml_jobs_pack_status(struct sml_jobs *jobs, uint64_t now_ns, size_t *n);

/*
 * For a switch that serves one job: from now on, serve the job that config.only_job now names, with
 * n_ranks ranks. What is known of the last job's ranks is kept; all other jobs end.
 */
void sml_jobs_serve_next(struct sml_jobs *jobs, uint32_t n_ranks, uint64_t now_ns);

/* Fail all jobs, because the switch ends. */
void sml_jobs_stop(struct sml_jobs *jobs, uint64_t now_ns);

#endif
