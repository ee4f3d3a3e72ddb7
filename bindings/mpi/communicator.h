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
#include <stdint.h>

#include "bindings/mpi/summary.h"
#include "bindings/mpi/threshold.h"
#include "switchml.h"

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

#endif
