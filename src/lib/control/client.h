/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank's side of the control connection. It has two phases. While the context opens, the opening
 * thread runs it (join, probe, ready: each call below blocks until its answer or the deadline).
 * From sml_control_start() on, its own thread runs it: that keeps the connection alive, answers the
 * switch's questions and notices the end. job/rank/session.h decides what is said.
 */
#ifndef SML_LIB_CONTROL_CLIENT_H
#define SML_LIB_CONTROL_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "control/stream.h"
#include "job/rank/session.h"
#include "lib/control/endpoints.h"
#include "lib/settings/settings.h"
#include "lib/transport/interface.h"

/* A TCP connection to a switch: finder.h makes them. */
struct sml_reached {
	int fd; /* not blocking, no delay */
	const struct sml_endpoint *endpoint;
	struct sml_interface interface;
};

struct sml_loop;
struct sml_control;
struct sml_stall_report;

/* The thread's callbacks. Called in the thread, never before sml_control_start(). */
struct sml_control_owner {
	struct sml_session_answers answers; /* self is of the other callbacks, too */
	/*
	 * Results that have come on the data path so far; NULL if they do not show that this switch
	 * is alive.
	 */
	uint64_t (*results)(void *self);
	/* The job has failed; planned: only because its members change. Once. */
	void (*failed)(void *self, int error, const char *text, bool planned);
	/* Some time has passed, a second or less, or sml_control_stalls() has something new. */
	void (*ticked)(void *self);
	/*
	 * The switch is gone, and others may take over: the control sends and receives nothing
	 * more. Called once, instead of `failed`. NULL if a lost switch is a failure.
	 */
	void (*lost)(void *self, const char *text);
};

/* What a rank asks for. */
struct sml_application {
	uint16_t lanes;
	const char *machine;			 /* NULL if it shares memory with nobody */
	const uint8_t *host_token;		 /* then: where others of this machine find it */
	const struct sml_resumption *resumption; /* NULL if the job begins */
	const uint16_t *ports; /* NULL; or it has slots, and listens there: one a shard */
	bool elsewhere;	       /* it joins at another switch, and this one is only told so */
};

/* What to do while a call below waits, when one of these descriptors is readable. */
struct sml_meanwhile {
	const int *fds;
	unsigned n_fds;
	void *self;
	void (*act)(void *self);
};

/* What listens at the other end: its name in texts (NULL: "the switch"), and before it is known. */
struct sml_listener {
	bool is_rank_0; /* it runs there */
	const char *name, *sought;
	const char *same, *remedy; /* for ranks that do not come: their SWITCHML_SWITCH, and more */
};
extern const struct sml_listener sml_listener_switch, sml_listener_rank_0;

/* The stripe that the switch must serve, and the number of stripes. */
struct sml_stripe_index {
	uint8_t stripe, n_stripes;
	const struct sml_listener *listener;
};

/*
 * The control owns the connection's socket, even on failure; everything else, including the
 * connection's endpoint, must outlive it. loop: the one that it runs in, which the caller owns
 * until sml_control_own_loop(); NULL for its own loop. All functions that return an int return 0,
 * or an error with its text set by sml_error_set().
 */
int sml_control_open(struct sml_control **opened, const struct sml_settings *settings,
		     const struct sml_reached *connection, const struct sml_stripe_index *place,
		     struct sml_loop *loop);

/* Give the loop to the control, which is the only one left in it, and which owns it from now on. */
void sml_control_own_loop(struct sml_control *control);

/*
 * From now on, calls that wait end with SML_ERROR_CLOSED soon after *give_up (atomic) has become
 * true, and with -EINTR if the settings' interrupt has.
 */
void sml_control_watch(struct sml_control *control, const bool *give_up);

/* Returns -EINTR, and sets the error text. */
int sml_control_set_interrupted(void);

/*
 * Send the request to join, and return at once. The application's resumption must live until the
 * admission.
 */
void sml_control_request_join(struct sml_control *control,
			      const struct sml_application *application);

/* Wait until the job is admitted. meanwhile may be NULL. */
int sml_control_admission(struct sml_control *control, const struct sml_meanwhile *meanwhile,
			  struct sml_admission *admission, uint64_t deadline_ns);

/* 0, or the session's error, with its text set by sml_error_set(). */
int sml_control_failure(struct sml_control *control);

/*
 * Has the switch said who is missing, and does this rank, of those that wait there, speak for all?
 */
bool sml_control_is_speaker(const struct sml_control *control);

/* Has it said that this rank is missing? */
bool sml_control_misses(const struct sml_control *control, unsigned rank);

/* Ask to join, and wait until the job is admitted. */
int sml_control_join(struct sml_control *control, const struct sml_application *application,
		     struct sml_admission *admission, uint64_t deadline_ns);

/*
 * Report what this rank has found out, and wait for what the job starts with: found->lanes, and
 * whether all share memory. meanwhile may be NULL.
 */
int sml_control_ready(struct sml_control *control, struct sml_readiness *found,
		      const struct sml_meanwhile *meanwhile, uint64_t deadline_ns);

/*
 * While the context opens: run the connection until something came over it or over one of these
 * sockets, or until until_ns.
 */
int sml_control_pump(struct sml_control *control, const int *fds, unsigned n_fds,
		     uint64_t until_ns);

/*
 * Says in words which rank the others waited for longest. Returns how long they did, in
 * milliseconds, or 0 if that is not known. Call it after sml_control_leave() has returned 0. The
 * text is valid as long as the control.
 */
uint64_t sml_control_slowest(struct sml_control *control, const char **text);

/* How many processes wait to join the job, as the switch last said. Any thread. */
unsigned sml_control_waiting(struct sml_control *control);

int sml_control_start(struct sml_control *control, const struct sml_control_owner *owner);

/*
 * Ask to leave, and wait until all ranks have asked. Returns 1 if the switch was lost before: then
 * ask again at the next one.
 */
int sml_control_leave(struct sml_control *control, uint64_t deadline_ns);

/*
 * This rank's slots have found that two ranks disagree about a use: ask these two for their calls,
 * and report them to all ranks. Only the first disagreement counts. Any thread; returns at once.
 */
void sml_control_mismatch(struct sml_control *control, const struct sml_disagreement *found);

/*
 * Results of this shard do not come: the next probe with this number tells its address
 * (core/renewal.h). Any thread; returns at once. A newer number replaces one that has not left yet.
 */
void sml_control_renew(struct sml_control *control, uint8_t shard, uint32_t number);

/* What a switch is told of a job that has failed here. */
struct sml_abort_message {
	int error;	/* 0 if the job has not failed here */
	unsigned kinds; /* of enum sml_abort_kind */
	char text[SML_TEXT_BYTES];
};

/*
 * Report to the switch that the job has failed here. If the control has no thread yet, the report
 * is sent when it is closed. kinds: as in sml_session_abort(). Any thread may call this; it returns
 * at once.
 */
void sml_control_abort(struct sml_control *control, int error, const char *text, unsigned kinds);

/*
 * When this control is closed, which has no thread yet: this rank has all results, and leaves, even
 * if the switch has started the job.
 */
void sml_control_retreat(struct sml_control *control);

/* The job has been admitted, and has not ended. NULL if it has not. Any thread. */
bool sml_control_is_admitted(struct sml_control *control);
/* This rank has said Ready, so the job may run. */
bool sml_control_is_ready(struct sml_control *control);

/*
 * Ask the switch what slots are waiting for, and forget what it has answered before. Any thread;
 * returns at once.
 */
void sml_control_query(struct sml_control *control);

/* The job has failed: forget earlier answers, and no later ones. */
void sml_control_keep_stalls(struct sml_control *control);

/*
 * The switch's report about one of its stripes (0 unless ranks have the slots): the one that came
 * with the job's failure, or the answer to a question, awaited until until_ns. NULL if unknown;
 * then text says why. The caller closes it. Any thread; the control's own thread must not wait
 * (until_ns 0).
 */
struct sml_stall_report *sml_control_stalls(struct sml_control *control, unsigned stripe,
					    uint64_t until_ns, char *text, size_t text_bytes);

/* The ranks' identities when the job failed; NULL if unknown. The caller closes it. */
struct sml_stall_report *sml_control_last_words(struct sml_control *control);

/* Before the end: this rank does not end with its job. */
void sml_control_go_on(struct sml_control *control);

/*
 * After `lost`, or at the end: ends the thread and the connection, and closes all descriptors.
 * Other threads may still call the above.
 */
void sml_control_retire(struct sml_control *control);

/*
 * A thread may be in a call above, or about to make one. The caller sees to it that only one thread
 * at a time is in one of these three.
 */
void sml_control_hold(struct sml_control *control);
void sml_control_release(struct sml_control *control);
bool sml_control_is_held(const struct sml_control *control);

/* Ends the thread and the connection. NULL is allowed. */
void sml_control_close(struct sml_control *control);

#endif
