/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An event loop for the control planes: descriptors, times, and posts of other threads. It has two
 * descriptors, makes them when it is opened and no others later, and never ends the process: where
 * something is missing, the call that needs it returns an error.
 *
 * A turn of the loop polls once, and then serves one class of watches: the first one that has work.
 * What becomes ready meanwhile is served in a later turn, so nobody keeps the loop for himself.
 *
 * The invariant: between two turns, a watch is in its class's queue exactly if `ready` is not 0.
 */
#ifndef SML_BASE_LOOP_H
#define SML_BASE_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#define SML_LOOP_CLASSES 3

/* What a watch waits for, and what its function is told: a set of these. */
#define SML_WATCH_READ	1u
#define SML_WATCH_WRITE 2u
#define SML_WATCH_TIME	4u
#define SML_WATCH_POST	8u

struct sml_loop;
struct sml_watch;

/*
 * Returns 0, or -errno if there are no descriptors or no memory. A child made by fork() does not
 * keep the loop's descriptors.
 */
int sml_loop_open(struct sml_loop **opened);

/* Free all watches of the loop before this call. NULL is allowed. */
void sml_loop_close(struct sml_loop *loop);

/* A turn serves at most this many watches of the classes from `first` on, or as many as fit. */
void sml_loop_limit(struct sml_loop *loop, unsigned first, unsigned most_calls, uint64_t most_ns);

/*
 * Run one turn. It waits until there is something to serve, or until until_ns; if that is 0, it
 * does not wait. Returns false if nothing was served.
 */
bool sml_loop_turn(struct sml_loop *loop, uint64_t until_ns);

/* Run turns until sml_loop_stop(), which a watch's function calls. */
void sml_loop_run(struct sml_loop *loop);
void sml_loop_stop(struct sml_loop *loop);

/*
 * A watch of class 0, which waits for nothing yet. fd is -1 if there is no descriptor. The
 * descriptor stays the caller's, who closes it only after the watch. The loop calls act, which may
 * free any watch. Returns NULL if there is no memory.
 */
struct sml_watch *sml_watch_new(struct sml_loop *loop, int fd,
				void (*act)(void *self, unsigned what), void *self);

/* Call this in the loop's thread, or when no thread runs the loop. NULL is allowed. */
void sml_watch_free(struct sml_watch *watch);

void sml_watch_set_class(struct sml_watch *watch, unsigned class);

/*
 * From now on, act is called whenever the descriptor is readable (SML_WATCH_READ), writable
 * (SML_WATCH_WRITE), or never (0). An error of the descriptor counts as both. Returns 0 or -errno.
 */
int sml_watch_set(struct sml_watch *watch, unsigned what);

/* Call act once at that time; never if it is UINT64_MAX. */
void sml_watch_at(struct sml_watch *watch, uint64_t when_ns);

/* Call act after each period. */
void sml_watch_every(struct sml_watch *watch, uint64_t period_ns);

/* Call act in the next turn. Any thread may post. Several posts before the turn count as one. */
void sml_watch_post(struct sml_watch *watch);

#endif
