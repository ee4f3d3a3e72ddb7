/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The jobs of a switch (job/switch.h) without a switch: peers that remember the messages to
 * them, the dataplane of tests, a clock that moves only when told, and secrets that are
 * numbers. Tests can look at everything in here.
 *
 * Not on the simulator's network (sim/control/): there, sessions answer by themselves, and
 * messages and deaths come when a seed says. Here a test writes each message of a peer, also
 * those that no session sends, and it has been handled when the next line looks. Of both, only
 * the five functions of struct sml_jobs_output could be one, and they do different things.
 */
#ifndef SML_TESTS_JOBS_H
#define SML_TESTS_JOBS_H

#include "job/members/job.h"
#include "job/switch.h"
#include "support/dataplane.h"
#include "support/messages.h"

#define JOBS_PEERS 72
#define JOBS_SAID  512

struct jobs_peer {
	struct sml_peer peer;
	bool ended, deaf;
	SmlControl__Envelope *said[JOBS_SAID]; /* messages to the peer, oldest first */
	unsigned n_said;
};

extern struct jobs_world {
	struct sml_jobs jobs;
	struct sml_dataplane_operations operations;
	uint64_t now_ns, random;
	struct jobs_peer peers[JOBS_PEERS];
	struct sml_dataplane plane;
	unsigned n_warnings;		      /* in the switch's log */
	char warning[2 * SML_SENTENCE_BYTES]; /* the last one */
	char info[2 * SML_SENTENCE_BYTES];    /* the last line there that is no warning */
} world;

/* What it says of itself, until the next call. */
SmlControl__Status *jobs_status(void);

/* Make a switch with these limits. ranks_have_slots: rank 0's port instead of a switch. */
void jobs_open(uint32_t max_slots, uint32_t max_jobs, bool ranks_have_slots);
/* The same with the limits of most tests. */
void jobs_open_usual(void);
void jobs_close(void);

/* A test that opens the world itself. Needs support/test.h. */
#define WORLD_TEST(sentence) TEST_WITH(sentence, NULL, jobs_close)
/* One of a switch with 4,096 slots for 64 jobs, which is open. */
#define JOBS_TEST(sentence) TEST_WITH(sentence, jobs_open_usual, jobs_close)

/* A Join as an honest rank sends it; or where ranks have the slots, with one stripe. */
SmlControl__Join jobs_join_message(const char *job, uint32_t rank, uint32_t world_size);
SmlControl__Join jobs_embedded_join(const char *job, uint32_t rank, uint32_t world_size);

/* Peers are numbers. Each peer connects when it first sends something. */
void jobs_say(unsigned peer, const SmlControl__Envelope *message);
void jobs_say_empty(unsigned peer, SmlControl__Envelope__BodyCase body);
void jobs_join(unsigned peer, SmlControl__Join join);
/* The same for a rank that has lost its switch, and shows this secret and tag of its job. */
void jobs_resume(unsigned peer, SmlControl__Join join, uint64_t membership, uint64_t tag,
		 bool leaving);
/* The report is without chunks. */
void jobs_resume_with(unsigned peer, SmlControl__Join join, SmlControl__Resume report);
/* And for one that was ready, and not told to start. */
void jobs_begin_again(unsigned peer, SmlControl__Join join, uint64_t membership);
/* Peers first, first + 1, … are ranks 0, 1, … of this job. */
void jobs_join_all(unsigned first, const char *job, uint32_t world_size);
/* The same, and the job runs. */
void jobs_start(unsigned first, const char *job, uint32_t world_size);
/* Opens the world with one job, "a". Rank r is on machines[r]; '-': it does not say where. */
void jobs_join_from(const char *machines, bool ranks_have_slots);
/* The same of two ranks with slots, which run. */
void jobs_start_embedded(void);
/*
 * All ranks of that job share memory, except `individual`, and are ready. Do they, as Start says?
 */
bool jobs_start_host(uint32_t n, uint32_t individual);
void jobs_ready(unsigned peer);
void jobs_ready_sharing(unsigned peer, bool shares_memory);
void jobs_leave(unsigned peer);
void jobs_hang_up(unsigned peer);

/* Let time pass. Every connected peer sends Ping, unless silent is set. */
void jobs_wait(uint64_t ns);
void jobs_wait_silently(uint64_t ns);
/* The switch does not run for this long. */
void jobs_pause(uint64_t ns);

/* How many messages of this kind the peer got; and the last one, or NULL. */
unsigned jobs_count(unsigned peer, SmlControl__Envelope__BodyCase body);
const SmlControl__Envelope *jobs_received(unsigned peer, SmlControl__Envelope__BodyCase body);
/* The reason for which the peer was refused; "": it was not refused. */
const char *jobs_refusal(unsigned peer);
/* The peer was refused, and the reason contains this part. */
void jobs_assert_refused(unsigned peer, const char *part);
/* It also has this error, and its connection has ended. */
void jobs_assert_ended(unsigned peer, int error, const char *part);
const SmlControl__Admitted *jobs_admitted(unsigned peer);

#endif
