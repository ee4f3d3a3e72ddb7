/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A switch's answers, and the rates per second between the last two of them, for `switchml status`
 * and `switchml top`. All intervals are by the switch's clock, so network delays do not change a
 * rate.
 */
#ifndef SML_CMD_SHARED_VIEW_H
#define SML_CMD_SHARED_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "control.pb-c.h"
#include "core/slot.h"

struct sml_view {
	char address[320];
	SmlControl__Envelope *now, *before; /* NULL if there is no answer */
	char error[1024];		    /* why there is no `now` */
	const char *fix;		    /* there was no connection: what to do; or NULL */
	bool is_rank_0;			    /* of a job without a switch */
};

/* Per second. */
struct sml_switch_rates {
	bool known;
	double seconds; /* of the interval */
	double packets_received, packets_sent;
	double bytes_received, bytes_sent; /* UDP payload */
};

/* What a rank moves, or several ranks do, as they count it. */
struct sml_traffic_rates {
	bool known;
	double packets_sent, packets_received;
	double bytes_sent, bytes_received;
	double timeouts,
		fast; /* packets sent again: by the timer, and as later ones were answered */
};

struct sml_rank_rates {
	bool known; /* of the switch's own counters, which are the next three; not of ranks at
		       leaves */
	double contributions, resends;
	/*
	 * The part of the interval for which others waited for it, 0 to 1, below 0 if that is not
	 * known; of that, for which only ranks that share its memory did.
	 */
	double waited_share, waited_inside;
	struct sml_traffic_rates traffic;
	double link_share; /* of the busier direction, 0 to 1; below 0 if not known */
};

struct sml_job_rates {
	bool known;
	double uses; /* of slots, completed */
	double resends,
		duplicates; /* packets that came again: the result was lost, or is missing */
	struct sml_traffic_rates traffic; /* of all ranks; a leaf is told none */
	/* The rank or the leaf for which the others waited longest: -1 and NULL if for none. */
	int slowest;
	const char *slowest_leaf; /* as long as the view has this answer */
	double slowest_share;	  /* of the interval; below 0 if there is none */
	double link_share;	  /* of the busiest rank; below 0 if not known */
};

/* A leaf of the switch, in one job. */
struct sml_branch_rates {
	double contributions, resends;
	double waited_share; /* as of struct sml_rank_rates */
};

/* Ask the switch for its status. Returns 0, or a negative errno and sets the view's error. */
int sml_view_query(struct sml_view *view, int timeout_ms);

/* What to do about the error, or "" if it says so itself. */
const char *sml_view_fix(const struct sml_view *view);

/*
 * The same with an answer, which the view then owns; NULL if there was none, and the error says so.
 */
void sml_view_take(struct sml_view *view, SmlControl__Envelope *answer);

void sml_view_free(struct sml_view *view);

static inline const SmlControl__Status *sml_view_status(const struct sml_view *view)
{
	return view->now != NULL ? view->now->status : NULL;
}

/* For texts, after the number of jobs: what counts towards the most jobs, too. */
#define SML_VIEW_KEPT_BYTES 24
static inline const char *sml_view_kept(const SmlControl__Status *status,
					char text[SML_VIEW_KEPT_BYTES])
{
	text[0] = '\0';
	if (status->kept_jobs > 0)
		snprintf(text, SML_VIEW_KEPT_BYTES, ", %u kept", status->kept_jobs);
	return text;
}

/* Between the two answers; 0 if there are no two, or the switch has started in between. */
double sml_view_seconds(const struct sml_view *view);

void sml_view_switch_rates(const struct sml_view *view, struct sml_switch_rates *rates);

/* Of a job of the last answer, and of all its n_workers ranks, as they are in the job's list. */
void sml_view_job_rates(const struct sml_view *view, const SmlControl__JobStatus *job,
			struct sml_job_rates *rates, struct sml_rank_rates *ranks);

/* Of a leaf that the job has. False if they are not known. */
bool sml_view_branch_rates(const struct sml_view *view, const SmlControl__JobStatus *job,
			   const SmlControl__BranchStatus *branch, struct sml_branch_rates *rates);

/* What the leaf of this name contributes to the job; NULL: there is none. */
const SmlControl__BranchStatus *sml_view_branch(const SmlControl__JobStatus *job, const char *leaf);

/* The sum is known as soon as any part of it is. */
void sml_view_add_traffic(struct sml_traffic_rates *sum, const struct sml_traffic_rates *more);

/*
 * The first rank of those that share this one's memory, and how many there are; 0 if it is alone.
 */
size_t sml_view_host_group(const SmlControl__JobStatus *job,
			   const SmlControl__WorkerStatus *worker);

/* Room for them; the caller frees it. NULL if there is no memory. */
static inline struct sml_rank_rates *sml_view_ranks(const SmlControl__JobStatus *job)
{
	return calloc(job->n_workers + 1, sizeof(struct sml_rank_rates));
}

#endif
