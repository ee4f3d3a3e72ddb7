/* SPDX-License-Identifier: BSD-3-Clause */
/* The results of a run: train.c, proof.c and solo.c fill them, report.c shows them. */
#ifndef SML_DEMO_RESULTS_H
#define SML_DEMO_RESULTS_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Many errors, each compared with its own bound. Keeps error and bound of the worst one. */
struct demo_check {
	uint64_t compared;
	double error, bound;
	double ratio; /* the largest error / bound; the check passes up to 1 */
};

/* A NaN fails the check. */
static inline void demo_check_add(struct demo_check *check, double error, double bound)
{
	double ratio = error <= bound ? (bound > 0 ? error / bound : 0) : (double)INFINITY;

	if (error > bound && bound > 0)
		ratio = error / bound;
	check->compared++;
	if (ratio > check->ratio || check->compared == 1)
		*check = (struct demo_check){check->compared, error, bound, ratio};
}

static inline bool demo_check_holds(const struct demo_check *check)
{
	return check->compared > 0 && check->ratio <= 1;
}

/* Traffic of the training steps, without that of the proofs. */
struct demo_traffic {
	uint64_t bytes_sent;		    /* UDP payload of the worker that sent most */
	uint64_t packets_sent, retransmits; /* all workers together */
	/* In frames, of the worker with most; 0 if bench/on-links has made no link. */
	uint64_t link_sent, link_received;
};

struct demo_results {
	int world, steps;
	size_t n_parameters;
	bool interrupted;
	bool gloo; /* Gloo's ring has averaged the gradients: the proofs of sums do not apply */

	double loss, accuracy; /* accuracy: share of the test images */
	double seconds;	       /* training time, without proofs and tests */
	double waiting;	       /* part of it: inside the library's calls */
	double reducing; /* part of it: from the first all-reduce of a step to the end of the last
			  */
	struct demo_traffic traffic;

	int samples;	       /* steps at which the sums were checked */
	struct demo_check sum; /* averages, against all ranks' gradients */
	bool same;	       /* all ranks have the same parameters, bit for bit */
	uint64_t hash;	       /* of this rank's parameters: the same bits, the same hash */

	bool solo; /* the following were measured (rank 0) */
	double solo_seconds, solo_accuracy;
	struct demo_check drift; /* from the parameters of the single process (train.h) */
};

/* The digits are easy: a run of this many steps with a lower accuracy has not learned. */
#define DEMO_LEARNED_STEPS    110
#define DEMO_LEARNED_ACCURACY 0.95

/* The model has learned, and every proof passed. */
bool demo_results_good(const struct demo_results *results);

#endif
