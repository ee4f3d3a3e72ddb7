/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the simulated control plane share: see control.h. */
#ifndef SML_SIM_CONTROL_INTERNAL_H
#define SML_SIM_CONTROL_INTERNAL_H

#include "job/rank/search.h"
#include "job/rank/session.h"
#include "job/switch.h"
#include "sim/control/control.h"
#include "sim/gen.h"

#define MS     1000000ull
#define SECOND (1000 * MS)
/* Ranks and switches that differ in what they reach; in a wide world, all reach everything. */
#define MAX_RANKS     5
#define MAX_SWITCHES  4
#define MAX_ADDRESSES 8
/* Connections, of all that the run makes. */
#define MAX_LINKS  16384
#define WIDE_LINKS (8 * SML_MAX_WORLD)
/* A root, leaves of it, and leaves of these. */
#define WIDE_SWITCHES (1 + 2 * SML_MAX_CHILDREN)
#define MAX_RIVALS    5
/* In an elastic world: processes, as bits; and how often the members may change. */
#define MAX_PROCESSES	8
#define MAX_MEMBERSHIPS 256
#define MAX_TAGS	8
#define RIVAL_RANKS	2
/* Of process 0. */
#define SIM_FIRST_PID 100u
#define TIMEOUT_NS    (120 * SECOND)
/* Of a rank, if all ranks have the same; and the longest otherwise. */
#define HEARTBEAT_MS 3000u
#define LONGEST_MS   20000u
/* In an elastic world: how long a process waits for the others of its next membership. */
#define MOVE_MS	 10000u
#define LANES	 352u
#define JOB_NAME "simulated"
/* Of a job whose members the switch decides on: its first name. */
#define LINE_NAME "membership"
#define NEVER	  UINT64_MAX
#define NEVER_32  UINT32_MAX

enum reach { ANSWERS, REFUSES, SILENT };

struct control;

/* One connection. Both ends keep it until the run ends. */
struct link {
	struct sml_peer peer; /* the first member: the switch's end */
	struct control *control;
	struct rival *rival;  /* the other job at this end; NULL: a rank of the simulated job */
	struct server *child; /* the leaf at this end; NULL: a rank */
	uint32_t child_life;
	uint16_t rank;
	uint8_t sw, address;
	uint32_t life;		      /* life of the switch that it connects to */
	bool at_rank, at_switch;      /* each end is open */
	bool cut;		      /* data on the way to the rank gets lost */
	uint64_t delay_ns, due_ns[2]; /* to switch, to rank: the last message arrives then */
	uint64_t heard_ns;	      /* the rank's end */
};

/* Another job at one switch. */
struct rival {
	struct link links[RIVAL_RANKS];
	uint64_t comes_ns, gathered_ns, leaves_ns;
	unsigned n_joined;
	bool squats; /* its first rank joins, whenever it can, and waits; the second never comes */
	bool admitted, refused, over;
};

struct server {
	struct control *control;
	struct sml_jobs jobs;
	/* A leaf: its end of the connection to its parent. */
	struct server *parent;
	struct sml_peer uplink;
	struct link *up; /* NULL if it is neither connected nor connecting */
	uint64_t up_since_ns, up_again_ns, proved_ns;
	uint16_t lanes; /* of its job */
	uint8_t index;
	bool alive;
	uint32_t life;
	enum reach reach[MAX_ADDRESSES][MAX_RANKS];
	bool udp[MAX_RANKS], full, narrow;
	uint32_t delay_us;
	uint64_t dies_ns, returns_ns, begun_ns;
	uint64_t pauses_ns, resumes_ns; /* it does not run from the one to the other */
	uint64_t roomy_ns;		/* another job has left the switch by then */
	uint32_t max_slots;
	struct rival rivals[MAX_RIVALS];
	uint8_t n_rivals;
	bool freezes;
	uint32_t last_words;  /* sends this many Left messages, then dies */
	uint32_t last_starts; /* likewise */
	struct path *paths;   /* in an elastic world, of all its jobs, by place; otherwise NULL */
	/* The data path of its one job. */
	uint32_t job, job_number, chunk;
	struct sml_ranks contributed;
	unsigned n_contributed;
	bool starts;
};

/* PARTED: its job has failed, and the next membership has not been decided. */
enum rank_state { COMING, BEGINNING, RUNNING, SEEKING, PARTED, WELL, FAILED, DEAD };

/* What a packet says of its sender, and a result of its job. */
struct data_mark {
	uint32_t job, epoch;
	uint64_t tag;
	uint16_t number;
};

struct attempt {
	struct link *link;
	struct sml_session session;
	bool talks;
	uint64_t tick_ns, probed_ns;
	struct sml_resumption resumption;
};

struct rank {
	struct control *control;
	uint16_t id;
	enum rank_state state;
	uint32_t heartbeat_ms, longest_ms; /* its own; and of its job, as it was told */
	uint64_t comes_ns, dies_ns, ends_by_ns;
	/* While it begins: until when it tries; when it first lost a switch, 0: it has not. */
	uint64_t begins_by_ns, early_ns;
	unsigned n_lost;     /* switches, while it begins */
	bool may_have_begun; /* it has said Ready, so others may have been told to start */
	bool freezes, dies_leaving;
	uint8_t home, next; /* the first address that it tries; and after a loss while it begins */
	uint8_t leaf;	    /* in a wide world: the switch that its only address leads to */
	struct sml_search search;
	struct attempt attempts[MAX_ADDRESSES];
	int taken; /* the current connection attempt; -1: none */
	uint32_t epoch;
	uint64_t tag, membership;
	/* Calls. */
	uint32_t done, wanted;
	uint32_t lacking[1], kept[1];
	bool has_kept, sent, leaves, begun;
	uint64_t next_ns, lost_ns;
	uint32_t sums[64]; /* the result of each call */
	int error;
	uint64_t living;     /* when it failed: the ranks that had not ended, as bits */
	uint64_t gave_up_ns; /* failed while it looked for the others, or left without them */
	char text[1200];
	/* Its place in its job. In an elastic world, that of its membership. */
	uint16_t number, n;
	const char *job;
	/* Where the switch decides: it asks, then; and what it can prove. */
	bool asks;
	uint64_t asks_ns;
	uint8_t last_address;
	struct sml_past_ranks past;
	/* Elastic: the membership that it is in, and the next one; it moves there then. */
	unsigned membership_now, membership_next;
	uint64_t moves_ns;
	uint64_t freezes_ns, thaws_ns; /* it does not run from the one to the other */
	struct data_mark mark;	       /* of its packets */
	uint8_t machine;	       /* where others may share memory with it; 0: none */
	bool shares_badly;	       /* it cannot always prove that it does */
};

enum event_kind {
	EVENT_CONNECTED,
	EVENT_REFUSED,
	EVENT_TO_SWITCH,
	EVENT_TO_RANK,
	EVENT_END_AT_SWITCH,
	EVENT_END_AT_RANK,
	EVENT_CONTRIBUTION,
	EVENT_RESULT
};

struct event {
	uint64_t at_ns, order;
	enum event_kind kind;
	struct link *link;
	uint8_t *bytes; /* a packed message */
	uint32_t n, chunk, epoch;
	/* Elastic. */
	struct data_mark mark;
	const struct link
		*origin; /* of a contribution that a leaf sends on: its rank's connection */
	uint32_t sum;	 /* the processes whose contributions a result has, as bits */
};

/* A job's members, in the order of their ranks. */
struct members {
	char job[SML_NAME_BYTES];
	uint16_t processes[MAX_PROCESSES], n;
	uint32_t bits;
	/* Of one line, only the last one that has started computes. */
	unsigned line;
	uint64_t secret;	 /* sml_job.membership; 0: not known yet */
	uint64_t tags[MAX_TAGS]; /* of its epochs */
	uint32_t n_tags;
	bool by_switch, started; /* a switch has decided on it; it has begun at some switch */
	uint64_t removed_ns;	 /* from a switch, last; NEVER: it has not been */
	/* Of those who have left it, by an error, for the next one, or at the end. */
	uint32_t ended, fewest_calls, most_calls;
};

struct control {
	struct gen gen;
	bool trace;
	uint64_t now_ns, order;
	struct sim_control_result *result;
	struct server *servers;
	uint64_t *servers_due, *ranks_due; /* their deadlines */
	uint8_t n_servers, n_addresses;
	uint16_t n_ranks;
	uint8_t switches[MAX_ADDRESSES];
	char names[MAX_ADDRESSES][32];
	const char *name_list[MAX_ADDRESSES];
	struct rank *ranks;
	bool rank_died, good_stays;
	bool has_tree; /* server 0 is the root, the others are leaves */
	bool is_wide;
	/* The program that runs the job decides on the members: elastic.c. */
	bool is_elastic;
	struct members *memberships;
	/* Or the switch does, from the first membership on: the last that has started, by line. */
	bool switch_decides;
	const struct members *last_started[MAX_MEMBERSHIPS];
	unsigned n_started;
	unsigned n_memberships;
	uint64_t decides_ns;
	bool embedded; /* rank 0 has the only control port, and each rank has a stripe */
	const struct server *good; /* it exists, or will exist */
	struct link *links;
	uint32_t n_links, max_links;
	struct event *events; /* a heap */
	size_t n_events, capacity;
};

__attribute__((format(printf, 2, 3))) void sim_say(struct control *control, const char *format,
						   ...);
__attribute__((format(printf, 2, 3))) void sim_wrong(struct control *control, const char *format,
						     ...);

/* The switch that a rank finds at an address; how; and whether its packets get there. */
static inline struct server *sim_server_at(const struct control *control, const struct rank *rank,
					   unsigned address)
{
	return &control->servers[control->is_wide ? rank->leaf : control->switches[address]];
}

static inline enum reach sim_reach(const struct server *server, unsigned address, unsigned rank)
{
	return server->reach[address][rank % MAX_RANKS];
}

static inline bool sim_has_udp(const struct server *server, unsigned rank)
{
	return server->udp[rank % MAX_RANKS];
}

/* In an elastic world: the membership with this tag in one of its epochs. NULL: there is none. */
static inline const struct members *sim_find_members(const struct control *control, uint64_t tag)
{
	for (unsigned i = 1; i < control->n_memberships; i++)
		for (uint32_t n = 0; n < control->memberships[i].n_tags && n < MAX_TAGS; n++)
			if (control->memberships[i].tags[n] == tag)
				return &control->memberships[i];
	return NULL;
}

/* ---- the world (draw.c) ---- */

/* Draw what exists and what happens, before anything has. */
void sim_draw(struct control *control, enum sim_control_kind kind, uint64_t seed);

/* ---- the network (network.c) ---- */

/* Plan the same event again, with the bytes that it has, but later. */
void sim_plan_again(struct control *control, uint64_t at_ns, const struct event *event);
bool sim_next_event(struct control *control, struct event *event);
uint64_t sim_next_event_ns(const struct control *control);
/* Connect a rank to an address. The outcome is an event, or there is none. */
struct link *sim_connect(struct control *control, struct rank *rank, unsigned address);
/* The same for a leaf and its parent. */
struct link *sim_connect_leaf(struct server *leaf);
/* One end sends a message, or closes the connection. */
void sim_send(struct link *link, bool to_switch, const SmlControl__Envelope *message);
void sim_end(struct link *link, bool at_switch);
/* Returns the event, to mark it; NULL if there is none. */
struct event *sim_send_data(struct link *link, bool to_switch, uint32_t chunk, uint32_t epoch);
/* Do packets between the two arrive at all? */
bool sim_link_works(const struct link *link);

/* ---- switches (switches.c) ---- */

void sim_server_begin(struct server *server);
void sim_server_dies(struct server *server);
void sim_server_event(struct server *server, const struct event *event,
		      const SmlControl__Envelope *message);
void sim_server_wake(struct server *server);
uint64_t sim_server_deadline(const struct server *server);
/* It exists, but does not run: its kernel keeps what comes. */
bool sim_server_is_paused(const struct server *server);
/* At a leaf's end of its connection. */
void sim_leaf_event(struct server *leaf, const struct event *event,
		    const SmlControl__Envelope *message);

/* ---- other jobs (rivals.c) ---- */

/* The first job does not come before from_ns. */
void sim_rivals_draw(struct server *server, uint64_t from_ns);
/* A stranger's half-joined jobs, as many as there may be, from then on. */
void sim_rivals_squat(struct server *server, uint64_t from_ns);
void sim_rivals_wake(struct server *server);
uint64_t sim_rivals_deadline(const struct server *server);
/* The rivals of a switch live and die with it. */
void sim_rivals_die(struct server *server);
void sim_rival_receives(struct rival *rival, const SmlControl__Envelope *message);
/* A job begins, or gets no room. */
void sim_pool_check_share(const struct server *server, const struct sml_pool_rules *rules);
void sim_pool_check_refusal(const struct server *server);
/* Jobs that have begun leave no room for another one. */
bool sim_pool_is_full(const struct server *server);

/* ---- ranks (ranks.c) ---- */

void sim_crank_event(struct rank *rank, const struct event *event,
		     const SmlControl__Envelope *message);
void sim_crank_wake(struct rank *rank);
/* It has not come yet, and nothing happens to it. */
void sim_crank_init(struct rank *rank, struct control *control, uint16_t id);
uint64_t sim_crank_deadline(const struct rank *rank);
void sim_crank_dies(struct rank *rank);
bool sim_crank_is_over(const struct rank *rank);
/* It may also pause before it tries to begin again. */
bool sim_crank_has_come(const struct rank *rank);
/* Leave the job for that of another membership, with or without an error. */
void sim_crank_moves(struct rank *rank, const struct members *members);
/* The same, and the switch decides where. */
void sim_crank_applies(struct rank *rank);

/* ---- a rank's connections (attempts.c) ---- */

/* Join the job through this connection, or resume it. */
void sim_attempt_join(struct rank *rank, unsigned address, bool resumes);
void sim_attempt_message(struct rank *rank, unsigned address, const struct event *event,
			 const SmlControl__Envelope *message);
void sim_attempt_drop(struct attempt *attempt);
void sim_attempts_drop(struct rank *rank);

extern const struct sml_session_answers sim_answers;
/* The address that the rank uses this connection for; -1 if it no longer does. */
int sim_attempt_of(const struct rank *rank, const struct link *link);
/* The rank is in the membership that has this tag. */
void sim_crank_note_rank(struct rank *rank, uint64_t tag);

/* The sum of a call, which must be the same on every rank. */
static inline uint32_t sim_sum_of_call(uint32_t chunk)
{
	return chunk * 2654435761u;
}

/* ---- jobs whose members change (elastic.c) ---- */

void sim_elastic_draw(struct control *control, uint64_t seed);
/* This process is not in a job, and wants to be. */
void sim_elastic_wait_to_apply(struct rank *rank);
/* It is time to decide, or for this process to move. */
void sim_elastic_decide(struct control *control);
void sim_elastic_move(struct rank *rank);
bool sim_elastic_is_frozen(const struct rank *rank);
/* What the switch has decided is what all of its members learn. */
void sim_elastic_learn(struct rank *rank, const struct sml_decided *decided, uint64_t secret);
/* The switch has refused the rank that asked to be a member. */
void sim_elastic_refused(struct rank *rank, int error, const char *text);
/* Its membership is over for this process. Checks what its members may differ in. */
void sim_elastic_ends(const struct rank *rank);
/* The abstract dataplane of a switch. */
void sim_elastic_add_job(struct server *server, const struct sml_pool_rules *rules);
void sim_elastic_start_job(struct server *server, uint32_t job);
void sim_elastic_remove_job(struct server *server, uint32_t job);
void sim_elastic_contribute(struct server *server, const struct event *event);
/* Is it a result that this rank waits for? Checks its sum. */
bool sim_elastic_accepts(const struct rank *rank, const struct event *event);
void sim_elastic_check(struct control *control);

/* ---- what a switch tells those that ask (judged.c) ---- */

/* It is about to tell the process at this link that it fails. */
void sim_judged_failure(const struct server *server, const struct link *link, const char *text);
/* A process is told that another one has died. */
void sim_judged_death(const struct rank *rank, const char *text);
/* It has decided. */
void sim_judged_decided(const struct server *server, const struct members *members);

#endif
