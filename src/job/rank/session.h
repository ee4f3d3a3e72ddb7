/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank's side of the session with one switch, from the join to the leave. Sans I/O: no socket, no
 * clock, no thread. The library's control drives it with a channel (lib/control/), the simulator
 * with its own network and clock, a fuzzer with bytes.
 *
 *	CONNECTED --Join--> JOINING --Admitted--> ADMITTED --Ready--> READY
 *	   --Start--> RUNNING --Leave--> LEAVING --Left--> LEFT
 *	and from anywhere, by Abort, silence or the connection's end: FAILED;
 *	or, of a switch that others may take over from: LOST
 *	A rank that resumes only to leave may be told Left while it joins, too.
 *
 *	in    a message           sml_session_reject(), then sml_session_message()
 *	      the connection ends sml_session_ended()
 *	      a tick, and time    sml_session_tick()
 *	      what the rank wants sml_session_join(), _ready(), _leave(), …
 *	out   messages            struct sml_session_output
 *	      questions           struct sml_session_answers
 *	      everything else     the phase, and the members beside it
 *
 * Outputs are called from within inputs, and must not call back in.
 *
 * The invariant: from LEFT on, nothing is sent, and the phase does not change.
 */
#ifndef SML_JOB_RANK_SESSION_H
#define SML_JOB_RANK_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control.pb-c.h"
#include "core/resume.h"
#include "job/common/ranks.h"
#include "job/common/rules.h"
#include "job/common/waits.h"

#define SML_SESSION_TEXT_BYTES 1024
/*
 * How long a rank that has asked to leave and then loses its switch looks for the others: they may
 * have been told that all have left. After half of that time, it tells switches that it only wants
 * to leave (Resume.leaving); a switch where no rank wants more than that lets it leave.
 */
#define SML_LEAVE_WAIT_NS 30000000000ull

enum sml_session_phase {
	SML_SESSION_CONNECTED,
	SML_SESSION_JOINING,
	SML_SESSION_ADMITTED,
	SML_SESSION_READY,
	SML_SESSION_RUNNING,
	SML_SESSION_LEAVING,
	SML_SESSION_LEFT,
	SML_SESSION_FAILED,
	SML_SESSION_LOST /* another switch may take over */
};

/* What a rank reports to a replacement switch (core/resume.h). */
struct sml_resumption {
	uint32_t epoch; /* the highest that this rank was told */
	uint64_t tag;
	uint64_t membership; /* proves that this rank belongs to the job */
	bool leaving;	     /* it has asked to leave, and looked for the others long enough */
	bool begins;	     /* it was not told to start: it lacks all, and has no reports */
	bool only_integers;  /* it sends no floats, wherever it goes */
	bool adds_parts;     /* it takes parts of sums for rounded, likewise */
	struct sml_resume_report reports[SML_STREAMS];
	void *self; /* This and the functions are not used if it begins. */
	/* A kept result, NULL if there is none. */
	const void *(*kept)(void *self, enum sml_stream_id stream, uint32_t chunk,
			    uint16_t *n_lanes);
	/* A result that this rank lacked. Negative: it does not fit. */
	int (*adopt)(void *self, enum sml_stream_id stream, uint32_t chunk, const void *lanes,
		     uint16_t n_lanes);
};

#define SML_SESSION_NAME_BYTES 128

/* A rank of a job whose ranks have the slots. */
struct sml_peer_rank {
	uint8_t host[16],
		host_bytes; /* 4 or 16; 0 for the host that the control connection leads to */
	uint16_t ports[SML_MAX_SHARDS];
	uint64_t cookie, tag; /* this rank's cookie at that one's stripe, and the stripe's tag */
	char name[SML_SESSION_NAME_BYTES]; /* its host's, for texts; "": not told */
	uint32_t pid;
	uint16_t first_of_host; /* the lowest rank that may share memory with it */
};

/* Such a job has no tree. */
struct sml_peer_ranks {
	struct sml_peer_rank ranks[SML_MAX_STRIPES];
	uint64_t cookies[SML_MAX_STRIPES]; /* all ranks', at this one's stripe if it has one */
};

#define SML_SESSION_TOKEN_BYTES 16

/* The ranks of this one's machine, and what each has said where it is found. */
struct sml_host_ranks {
	struct sml_ranks ranks; /* this one is among them; empty: none is known */
	uint8_t n;		/* how many there are */
	/* Of each, in the order of ranks. */
	uint8_t tokens[SML_MAX_CHILDREN][SML_SESSION_TOKEN_BYTES];
};

/* The membership that the switch has decided on. */
struct sml_decided {
	char job[SML_SESSION_NAME_BYTES];
	uint16_t rank, world_size;
	uint32_t number;
	uint64_t after; /* the report_tag of the job that it follows */
	/* Of each rank, 1 plus the rank that it had there, or 0 if none. It is the session's. */
	uint16_t *before;
};

/* What the switch has given this rank. */
struct sml_admission {
	uint64_t cookie, tag, membership;
	uint64_t report_tag; /* of this epoch, in a report */
	uint32_t job_number, epoch;
	uint32_t changes; /* of the members, before this job */
	uint32_t window_packets;
	uint32_t heartbeat_ms; /* the longest of the job's ranks */
	uint16_t lanes, head_slots, data_slots, data_port;
	uint16_t n_hosts; /* of the job's ranks, as they say; 0 if not told */
	uint8_t shards;
	uint8_t number;	     /* this rank's at the switch, as in packets */
	bool stall_reports;  /* it can be asked what slots are waiting for */
	bool full_packets;   /* it takes only packets of `lanes` lanes */
	bool only_int32;     /* it adds no lanes of two int16 */
	bool rounds;	     /* it rounds sums of narrow lanes */
	bool omits;	     /* it takes packets without their lanes: SML_LANES_OMITTED */
	bool floats;	     /* it adds lanes of floats, and so do all leaves: core/exact.h */
	bool adds_parts;     /* leaves or hosts round the sums of parts of the ranks */
	bool single_packets; /* it might see segmented datagrams before they are cut up */
	char dataplane[16];
	/* After a resume: what tickets mean. The tables are valid as long as the session. */
	struct sml_ticket_map maps[SML_STREAMS];
	/* Where the ranks have the slots: as long as the session, too. Stripe i is rank i's. */
	uint8_t stripes;
	const struct sml_peer_ranks *peer_ranks;
	struct sml_host_ranks host_ranks;
	/* NULL if the caller has decided. Valid as long as the session. */
	const struct sml_decided *decided;
};

/* Some of the ranks had been told to start before. */
static inline bool sml_admission_resumes(const struct sml_admission *admission)
{
	return admission->maps[SML_HEAD].table != NULL;
}

struct sml_disagreement {
	uint16_t slot;
	uint32_t use, chunk;
	uint16_t ranks[2];
};

/* Functions of the session's owner, which the session calls. */
struct sml_session_output {
	/* Queue a message. Returns 0, or a negative errno if there is no memory. */
	int (*send)(void *self, const SmlControl__Envelope *message);
	/* The phase is another one. NULL if the owner looks itself. */
	void (*entered)(void *self);
	/*
	 * What slots are waiting for, as the switch says; last: it is part of the switch's last
	 * message.
	 */
	void (*stalls_reported)(void *self, const SmlControl__StallReport *report, bool last_words);
};

/* What the rank knows while its job runs. */
struct sml_session_answers {
	void *self;
	/*
	 * Writes which call has this chunk, as text. Returns true, with the call's numbers in
	 * *call, if this rank knows such a call.
	 */
	bool (*describe)(void *self, enum sml_stream_id stream, uint32_t chunk, char *text,
			 size_t text_bytes, SmlControl__Call *call);
	/* What this rank's slots are waiting for, as sml_waits_pack(). */
	void (*pack_waits)(void *self, size_t room, struct sml_waits_message *waits);
	/* What they have done so far; counters by rank are in this memory. */
	void (*get_stripe_status)(void *self, SmlControl__StripeStatus *status,
				  uint64_t waited_ms[SML_MAX_CHILDREN]);
	/* What this rank has moved so far. False if that is not known. */
	bool (*get_traffic)(void *self, SmlControl__Traffic *traffic);
};

struct sml_session_config {
	const char *what;  /* that listens there, for texts: "rank 0"; NULL for "the switch" */
	const char *where; /* the switch, for texts */
	uint16_t rank, world_size;
	uint32_t heartbeat_ms;
	bool rank_0_runs_it;	   /* rank 0, another process, listens there */
	const char *proof, *unset; /* TLS: what the switch needs, and what to unset without it */
	const struct sml_session_output *output;
	void *self;
};

struct sml_session {
	struct sml_session_config config;
	enum sml_session_phase phase; /* atomic for threads that only look at it */
	/* FAILED and LOST: why. */
	int error;
	char text[SML_SESSION_TEXT_BYTES];
	/* LEFT: which rank the others waited for longest, as the switch says, and how long. */
	char slowest[128];
	uint64_t slowest_ms;	  /* 0 if not told */
	struct sml_ranks missing; /* that had not joined at the last message */
	unsigned n_more;	  /* how many others were missing, which it did not name */
	unsigned n_waiting;	  /* messages that said so */
	char hosts[512];	  /* of those that had, as the switch says; "": not told */
	char refused[256];  /* why one of them could not, as the switch says; "": none tried */
	bool heard;	    /* it has said something, so it is a switch */
	bool begun;	    /* all ranks have joined, and the switch has begun with them */
	bool may_be_lost;   /* others can take over, so a loss is not a failure */
	bool silent;	    /* the last tick found that nothing had come for too long */
	bool planned;	    /* FAILED: only because the members change */
	bool has_slots;	    /* this rank brings some to the job */
	bool asks;	    /* the switch decides which rank of which membership it is */
	uint32_t n_joiners; /* processes that wait to join the job, as the switch says */
	bool only_leaves;   /* it has said so in its join */
	bool begins;	    /* likewise; so it may be admitted to begin, or to resume */
	bool stalls_requested, asked;
	SmlControl__Describe question; /* asked, before the rank could answer */
	uint64_t n_results, alive_ns;  /* on the data path, and when the last of them was seen */
	uint32_t n_shards;	       /* that it asked for, at most */
	uint32_t n_ports;	       /* that it listens on, one a shard */
	uint16_t start_lanes;
	bool admitted_again; /* ranks of one machine could not share memory */
	bool offers_memory;  /* this rank has said that it shares memory */
	bool shares_memory;  /* every rank does, with all of its machine */
	struct sml_admission admission;
	uint32_t *tables[SML_STREAMS];	   /* of admission.maps */
	struct sml_peer_ranks *peer_ranks; /* of admission */
	struct sml_decided decided;	   /* likewise */
	const struct sml_resumption *resumption;
	const struct sml_session_answers *answers; /* NULL before the rank has any */
};

/* The config's pointers must live as long. */
void sml_session_init(struct sml_session *session, const struct sml_session_config *config);
void sml_session_fini(struct sml_session *session);

/* ---- what the rank wants; each in its phase ---- */

/* The job's terms are set; resumption: NULL, or lives until the admission. */
void sml_session_join(struct sml_session *session, const SmlControl__Join *join,
		      const struct sml_resumption *resumption);

/* What a rank has found out before the job starts. */
struct sml_readiness {
	uint16_t lanes;	    /* that probes have proved */
	bool shares_memory; /* with all ranks of its machine */
	/* Set by the library: the job was admitted again instead of started. */
	bool admitted_again;
};

void sml_session_ready(struct sml_session *session, const struct sml_readiness *found);

/* From now on it can answer; what was asked before is answered now. The answers live as long. */
void sml_session_serve(struct sml_session *session, const struct sml_session_answers *answers,
		       bool may_be_lost);

void sml_session_leave(struct sml_session *session, uint64_t now_ns);

/*
 * It does not want to be in the job any more, which has not begun for it, or goes on at this switch
 * when the rank has all results, and gives up looking for the others.
 */
void sml_session_retreat(struct sml_session *session);

/*
 * It gives the switch up, and lives. Says so where the job might begin before the connection has
 * ended, which would then look like a death. Returns false if the switch need not know.
 */
bool sml_session_give_up(struct sml_session *session);

/* Why a rank ends its job that finds no switch until its deadline. */
#define SML_SESSION_NOT_FOUND "no switch has taken over within its timeout"

/* What the switch is to know of a rank that ends the job. */
enum sml_abort_kind {
	SML_ABORT_TOLD = 1,    /* another switch of the job has told it this error */
	SML_ABORT_PLANNED = 2, /* no failure: the members change */
};

/* kinds: of enum sml_abort_kind, or 0. */
void sml_session_abort(struct sml_session *session, int error, const char *text, unsigned kinds);

/*
 * The job has failed, and this rank will ask to be in its next membership: that its connection ends
 * does not mean that it has died. Returns false if the switch need not know.
 */
bool sml_session_go_on(struct sml_session *session);

void sml_session_query_stalls(struct sml_session *session);
void sml_session_mismatch(struct sml_session *session, const struct sml_disagreement *found);
/* Results of this shard do not come: a probe with this number will tell its address. */
void sml_session_renew(struct sml_session *session, uint8_t shard, uint32_t number);

/* Only the first reason is kept. */
__attribute__((format(printf, 3, 4))) void sml_session_fail(struct sml_session *session, int error,
							    const char *format, ...);

/* ---- what happens ---- */

/* Checks a message as sml_rules_reject(). If it is refused, the session has failed. */
bool sml_session_reject(struct sml_session *session, const struct sml_head *head);

void sml_session_message(struct sml_session *session, const SmlControl__Envelope *message);

/*
 * The connection has ended. how is a text like "closed the connection". known: the switch had
 * proved its identity, or need not.
 */
void sml_session_ended(struct sml_session *session, const char *how, bool known);

/* The time between two ticks: a quarter of the heartbeat, and at most a second. */
static inline uint32_t sml_session_tick_ms(uint32_t heartbeat_ms)
{
	return heartbeat_ms < 4000 ? heartbeat_ms / 4 : 1000;
}

/*
 * Call it so often. It sends Ping, and judges the switch by when bytes last came, and by its
 * results on the data path (n_results so far): a switch that still serves is not dead, for a while.
 */
void sml_session_tick(struct sml_session *session, uint64_t heard_ns, uint64_t n_results,
		      bool known, uint64_t now_ns);

/* For session.c: copy what the switch gives this rank. False if it is impossible, and the session
 * has failed. */
bool sml_session_admit(struct sml_session *session, const SmlControl__Admitted *in);

/*
 * ---- which ranks of which jobs a process has been (admission.c) ----
 *
 * The switch that decides on a job's next members (job/join/decide.c) learns from this who asks. Of
 * one thread at a time.
 */

/* A rank of a job, as the switch knows it: a PastRank in the protocol. */
struct sml_past_rank {
	uint64_t tag; /* of its last epoch; 0 if there is none */
	uint16_t rank, world_size;
	bool ran; /* this rank knows that it has begun */
};

struct sml_past_ranks {
	/* The last membership that this rank was admitted to, and the last one that has begun. */
	struct sml_past_rank admitted, ran;
	/* Of the latter: the ranks that the caller's list for the next one has; none: not said. */
	struct sml_ranks members;
	uint32_t decisions; /* the highest number of a decision that this rank was told */
};

/* This rank was admitted, or its job has begun, which `ran` says. */
void sml_past_ranks_note(struct sml_past_ranks *past, const struct sml_past_rank *was);

/* The switch has decided. */
void sml_past_ranks_note_decision(struct sml_past_ranks *past, const struct sml_decided *decided);

/* An Ask and all that it points to. */
struct sml_membership_request {
	SmlControl__Ask ask;
	SmlControl__PastRank past_ranks[2], *list[2];
	uint8_t members[SML_RANKS_BYTES];
};

/* Write who asks. The rest of the message is the caller's to set. */
void sml_past_ranks_request(const struct sml_past_ranks *past, struct sml_membership_request *ask);

#endif
