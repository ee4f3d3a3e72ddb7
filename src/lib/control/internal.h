/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the two files of the control client share: client.c (set-up, the session's outputs and
 * inputs, and the calls of the opening thread), thread.c (from the start to the end).
 */
#ifndef SML_LIB_CONTROL_INTERNAL_H
#define SML_LIB_CONTROL_INTERNAL_H

#include <pthread.h>

#include "base/error.h"
#include "base/loop.h"
#include "control/channel.h"
#include "lib/control/client.h"
#include "lib/control/stall_report.h"

/* What other threads want of the control's thread; the session knows what its phase allows. */
struct sml_wanted {
	uint32_t renewals[SML_MAX_SHARDS]; /* to be told; 0: none of this shard */
	bool stalls, mismatch, abort, leave, stop;
};

struct sml_control {
	const struct sml_settings *settings;
	struct sml_stripe_index place;
	struct sml_loop *loop;
	bool own_loop;
	struct sml_channel channel;
	struct sml_watch *tick;
	struct sml_session session; /* belongs to the thread that runs the loop */
	char refused_logged[256];   /* as the session's, when it was logged last */
	const bool *give_up;	    /* atomic; NULL if nobody says so */
	struct sml_control_owner owner;
	pthread_t thread;
	bool threaded;
	bool aborts; /* we have ended it ourselves */
	unsigned holds;

	/* Shared with callers once the thread runs. */
	pthread_mutex_t lock;
	struct sml_watch *wake; /* NULL if there is no thread to wake any more */
	pthread_cond_t changed;
	struct sml_wanted wanted;
	bool mismatch_reported; /* atomic */
	struct sml_disagreement mismatch;
	bool keeps_stalls; /* the job has failed: what comes now is the last */
	/* Of the switch's stripe, the first; or of each rank's. Each set once for a question. */
	struct sml_stall_report *stalls[SML_MAX_STRIPES];
	struct sml_stall_report *last_words; /* with Abort, where ranks have the slots: no slots */
	bool retreats; /* it has all results, and gives up looking for the others */
	struct sml_abort_message abort; /* error 0: none is wanted */
	bool goes_on;			/* in the next membership: said when the connection ends */
};

/* Any thread. From LEFT on, the session does not change. */
static inline enum sml_session_phase sml_control_phase(const struct sml_control *control)
{
	return __atomic_load_n(&control->session.phase, __ATOMIC_ACQUIRE);
}

/* Callbacks of the channel, and of the wake. self is the control. */
void sml_control_received(void *self, const SmlControl__Envelope *message);
void sml_control_on_wake(void *self, unsigned what);

#endif
