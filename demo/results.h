/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run found out: filled by train.c, proof.c and solo.c, shown by report.c. */
#ifndef SML_DEMO_RESULTS_H
#define SML_DEMO_RESULTS_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Many errors, each against a bound of its own. Error and bound are kept of the worst. */
struct demo_check {
	uint64_t compared;
	double error, bound;
	double ratio; /* the largest error / bound; the check holds up to 1 */
};

/* A NaN breaks the check. */
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

/* Of the training steps alone, without the proofs' traffic. */
struct demo_traffic {
	uint64_t bytes_sent;		    /* UDP payload, of the worker that sent most */
	uint64_t packets_sent, retransmits; /* of all workers together */
};

struct demo_results {
	int world, steps;
	size_t n_parameters;
	bool interrupted;

	double loss, accuracy; /* accuracy: share of the test images */
	double seconds;	       /* of training, without proofs and tests */
	double waiting;	       /* of these, spent inside the library's calls */
	double reducing;       /* of these, from a step's first all-reduce to its last one's end */
	struct demo_traffic traffic;

	int samples;		 /* steps at which the next two were checked */
	struct demo_check sum;	 /* average, against all ranks' gradients */
	struct demo_check batch; /* average, against the whole batch's gradient in float64 */
	bool same;		 /* all ranks have the same parameters, bit by bit */
	double spread;		 /* largest difference of a parameter between two ranks */

	bool solo; /* the following were measured (rank 0) */
	double solo_seconds, solo_accuracy;
	double drift_largest;	 /* parameters' differences from the single-process run's */
	double control_rms;	 /* the control run's differences from it, root mean square */
	struct demo_check drift; /* ours, against a multiple of the control run's */
};

/* The digits are easy: whoever has trained this long and recognizes fewer has not trained. */
#define DEMO_LEARNED_STEPS    110
#define DEMO_LEARNED_ACCURACY 0.95
bool demo_results_learned(const struct demo_results *results);

/* Learned, and every proof held. */
bool demo_results_good(const struct demo_results *results);

#endif
