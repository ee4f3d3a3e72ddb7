/* SPDX-License-Identifier: BSD-3-Clause */
/* A job at a leaf: the peers whose messages go on to the parent, its beginning and its end. */
#ifndef SML_JOB_TREE_LEAF_JOB_H
#define SML_JOB_TREE_LEAF_JOB_H

#include "job/members/pool.h"

/* At a leaf: a peer, here or at a leaf of this one, whose messages go on to the parent. */
struct sml_proxied {
	struct sml_numbered key;
	struct sml_peer *peer;
	struct sml_leaf_job *job;     /* NULL if it has not been admitted */
	uint16_t rank, first_of_host; /* of its host: the lowest rank that shares memory with it */
	uint8_t child;
	bool resumes;
	uint32_t pid, heartbeat_ms;
	uint32_t stripe, stripes; /* as it said with its Join; only to be shown */
	char host[SML_NAME_BYTES];
};

struct sml_leaf_job {
	struct sml_job_pool pool;	/* the first: at a leaf, each pool is one of such a job */
	struct sml_leaf_job *next_over; /* once it is over */
	char name[SML_NAME_BYTES];
	uint16_t data_port; /* the parent's */
	bool ready;	    /* and the parent knows it */
	uint64_t probed_ns, answered_ns;
	/* Do the parent's results come? As of the last look; see core/renewal.h. */
	struct {
		uint64_t looked_ns, sent_again, results;
		uint32_t n_silent, number;
	} renewal;
	uint32_t rounds;
};

/* At a leaf: the job of the pool; in this place; with this number. NULL: there is none. */
static inline struct sml_leaf_job *sml_leaf_job_of(struct sml_job_pool *pool)
{
	return (struct sml_leaf_job *)pool;
}

static inline struct sml_leaf_job *sml_leaf_job_at(const struct sml_jobs *jobs, uint32_t place)
{
	return sml_leaf_job_of(jobs->pools[place]);
}

static inline struct sml_leaf_job *sml_leaf_job_find(const struct sml_jobs *jobs, uint32_t number)
{
	return sml_leaf_job_of(sml_job_pool_find(jobs, number));
}

void sml_leaf_job_begin(struct sml_jobs *jobs, const SmlControl__Admitted *in);

/*
 * The ends of a job here, as in job/states/end.h: true, the job is over, and its memory lasts until
 * the input has been handled. how, planned: for the logs of this switch and of its leaves, as in
 * the Abort of control.proto. It fails if it cannot be served here, and the parent is told.
 */
bool sml_leaf_job_end(struct sml_leaf_job *job, const char *how, bool planned);
bool sml_leaf_job_fail(struct sml_leaf_job *job, int error, const char *text, bool again);

/* Free the jobs that are over. Between two inputs. */
void sml_leaf_jobs_sweep(struct sml_jobs *jobs);

/* Are the slots of ended jobs free now? False if the job has failed, and the parent knows why. */
bool sml_leaf_job_try_slots(struct sml_leaf_job *job);

/* ---- between the two: leaf_run.c ---- */

/* The root's Admitted for this rank gets this switch's numbers. */
void sml_leaf_job_admit(const struct sml_proxied *proxied, SmlControl__Admitted *admitted);

/* Is its path known? False if the job has failed, and the parent knows why. */
bool sml_leaf_job_is_ready(struct sml_proxied *proxied, const SmlControl__Ready *ready);

/* It gets no results here, and its address may be another one. */
void sml_leaf_job_renew_rank(const struct sml_proxied *proxied, const SmlControl__Renew *in);

/* Tell the parent if all are ready. The job may fail. And the parent starts it. */
void sml_leaf_job_check_ready(struct sml_leaf_job *job);
void sml_leaf_job_start(struct sml_leaf_job *job);

/* Tell the parent that two ranks disagree. */
void sml_leaf_job_mismatch(const struct sml_leaf_job *job, const struct sml_mismatch *mismatch);

/*
 * The parent wants to know what slots wait for. This switch asks its own leaves, and answers once
 * they have answered, or when it took too long.
 */
void sml_leaf_job_report_slots(struct sml_leaf_job *job);
void sml_leaf_job_look_for_answers(struct sml_leaf_job *job);

/* The job may fail. */
void sml_leaf_job_tick(struct sml_leaf_job *job);
uint64_t sml_leaf_job_deadline(const struct sml_leaf_job *job);

#endif
