/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is known of a communicator, stored as its attribute.
 *
 *	UNTRIED --- its ranks have not exchanged anything about the switch yet
 *	   | the first blocking call that may wait for all of them
 *	   v
 *	AGREED ---- rank 0 has told the others the thresholds
 *	   | the first such call that is large enough, or that follows one
 *	   v
 *	OPEN, or LEFT to MPI for good
 *
 * The one invariant: every rank of a communicator makes each of these steps in the same
 * call. The steps depend on the sequence of the communicator's collectives and on what its
 * ranks have told each other. They never depend on something that only one rank knows.
 */
#ifndef SML_MPI_COMMUNICATOR_H
#define SML_MPI_COMMUNICATOR_H

#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bindings/mpi/threshold.h"
#include "switchml.h"

/* ---- how each call was sent, for SWITCHML_SUMMARY=all (summary.c) ---- */

enum sml_mpi_way {
	SML_MPI_SWITCH,	   /* through the switch; the rest goes through MPI, because: */
	SML_MPI_SMALL,	   /* below the threshold */
	SML_MPI_UNWORTHY,  /* a switch gains nothing here, whatever the size */
	SML_MPI_KIND,	   /* the switch does not offload this type or operation */
	SML_MPI_GROUP,	   /* an intercommunicator, one rank, or more ranks than a job can have */
	SML_MPI_EARLY,	   /* MPI_Iallreduce before the communicator had a job */
	SML_MPI_NO_SWITCH, /* no switch was available */
	SML_MPI_WAYS
};

enum sml_mpi_collective {
	SML_MPI_ALLREDUCE,
	SML_MPI_REDUCE,
	SML_MPI_REDUCE_SCATTER,
	SML_MPI_BCAST,
	SML_MPI_COLLECTIVES
};

/* An all-reduce. */
void sml_mpi_count(enum sml_mpi_way way, bool blocking, uint64_t bytes);
/* Another call that the switch could offload. */
void sml_mpi_count_other(enum sml_mpi_collective collective, bool offloaded, uint64_t bytes);
void sml_mpi_count_job(void);

/* Calls that MPI got, of those that the switch has, on all communicators. */
uint64_t sml_mpi_count_left(void);

/*
 * Print to standard error where the calls went, if SWITCHML_SUMMARY is all. And rank 0 prints a
 * line if a switch is named and got none of the program's all-reduces.
 */
void sml_mpi_summary(void);

/* ---- communicators (communicator.c) ---- */

enum sml_mpi_state { SML_MPI_UNTRIED, SML_MPI_AGREED, SML_MPI_OPEN, SML_MPI_LEFT };

struct sml_mpi_communicator {
	MPI_Comm comm; /* MPI_COMM_NULL after it has been freed */
	int rank, size;
	enum sml_mpi_state state;
	enum sml_mpi_way why;	      /* why MPI handles all calls */
	struct sml_mpi_bytes from;    /* calls of at least this size go through the switch */
	struct sml_mpi_bytes largest; /* of the calls before it had a job */
	bool has_news;		      /* `largest` has grown since it was compared with `from` */
	struct sml_context *job;
	int references; /* atomic: one for the attribute, and one for each call under way */
	int error_code; /* atomic; MPI's error code after the job failed, 0 before */
	bool closing;	/* the closer runs, or has run */
	bool closed;	/* atomic: the closer is done */
	pthread_t closer;
	struct sml_mpi_communicator *next;
};

/*
 * Get the data of a communicator; create it if `make` is set. NULL if there is none. Whether it
 * exists depends on the communicator's sequence of collectives, as everything here does.
 */
struct sml_mpi_communicator *sml_mpi_communicator_of(MPI_Comm comm, bool make);

void sml_mpi_communicator_use(struct sml_mpi_communicator *communicator);
/* The last release of a freed communicator lets a separate thread close its job. */
void sml_mpi_communicator_release(struct sml_mpi_communicator *communicator);

/* MPI's error code for the job's failure. Its text is the library's error text. */
int sml_mpi_error_code(struct sml_mpi_communicator *communicator, int error);

/* Call the communicator's error handler. Returns the code that MPI's call must return. */
int sml_mpi_raise(struct sml_mpi_communicator *communicator, int error_code);

/* Close all jobs and wait for that, while MPI makes progress. Called before MPI ends. */
void sml_mpi_communicators_close(void);

/* True after the first communicator was made and before MPI ends. */
bool sml_mpi_is_used(void);

/* Between MPI_Init() and MPI_Finalize(). Programs with sessions alone have no MPI_COMM_WORLD. */
bool sml_mpi_has_world(void);

/* This rank of all ranks that the launcher has started; -1 if only it could say, and does not. */
int sml_mpi_world_rank(void);

/* ---- how the ranks get a job, or agree to work without one (start.c) ---- */

/*
 * Called first in each blocking collective that cannot end before all ranks of the
 * communicator have begun it. So waiting for all ranks changes nothing, and every rank gets
 * here in the same call. Opens the job if the communicator has had an all-reduce that is
 * large enough.
 */
void sml_mpi_meet(struct sml_mpi_communicator *communicator);

/* ---- the host of a rank, and where the rank could run its job's switch (host_port.c) ---- */

/* Equal for processes that reach each other by 127.0.0.1, and different for all others. */
uint64_t sml_mpi_host(void);

/* The name of this host for other hosts. */
void sml_mpi_host_name(char *name, size_t bytes);

/* The ports to search, first to last. */
struct sml_mpi_ports {
	int first, last;
	bool random; /* begin anywhere, so that jobs that begin at once find different ports */
};

/* A TCP port without a listener. 0 if there is none. */
int sml_mpi_free_port(const struct sml_mpi_ports *ports);

/*
 * ---- waiting inside an MPI call (backoff.c) ----
 *
 * For something that is not MPI's. MPI must make progress in the meantime: another rank may need
 * this rank's part of a message before that rank reaches the awaited call. So no code here blocks.
 * It checks, lets MPI make progress, and rests a little, with growing pauses.
 */

struct sml_mpi_backoff {
	uint64_t begun_ns; /* 0 before the first rest */
};

/* Let MPI make progress. */
void sml_mpi_progress(void);

/* Yield the core: the switch's threads may have no core to themselves. */
void sml_mpi_back_off(struct sml_mpi_backoff *backoff);

/*
 * The communicator that sml_mpi_progress() probes: made from the first one in use, of which this is
 * `rank`, and freed before MPI, or a part of it, ends.
 */
void sml_mpi_progress_init(MPI_Comm comm, int rank);
void sml_mpi_progress_fini(void);

#endif
