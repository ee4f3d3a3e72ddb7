/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is known of a communicator, kept as an attribute of it.
 *
 *	UNTRIED --- its ranks have not spoken about the switch yet
 *	   | the first blocking call that may wait for all of them
 *	   v
 *	AGREED ---- rank 0 has told the thresholds
 *	   | the first such call after, or with, one that is large enough
 *	   v
 *	OPEN, or LEFT to MPI for good
 *
 * The one invariant: every rank of a communicator passes these steps in the
 * same call. They depend on the sequence of its collectives and on what its
 * ranks have told each other, and on nothing that one rank knows alone.
 */
#ifndef SML_MPI_COMMUNICATOR_H
#define SML_MPI_COMMUNICATOR_H

#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "bindings/mpi/summary.h"
#include "bindings/mpi/table.h"
#include "switchml.h"

enum sml_mpi_state { SML_MPI_UNTRIED, SML_MPI_AGREED, SML_MPI_OPEN, SML_MPI_LEFT };

struct sml_mpi_communicator {
	MPI_Comm comm; /* MPI_COMM_NULL once it has been freed */
	int rank, size;
	enum sml_mpi_state state;
	enum sml_mpi_way why;	      /* it is left to MPI */
	struct sml_mpi_bytes from;    /* so many on, calls go through the switch */
	struct sml_mpi_bytes largest; /* of the calls before it had a job */
	struct sml_context *job;
	int references; /* atomic: the attribute's, and one of each call under way */
	int error_code; /* atomic; MPI's number for how the job failed, 0 before */
	bool closing;	/* the closer runs, or has run */
	bool closed;	/* atomic: the closer is done */
	pthread_t closer;
	struct sml_mpi_communicator *next;
};

/*
 * The communicator's, made if `make` is set. NULL: there is none. Whether there
 * is one depends on its sequence of collectives, like all else.
 */
struct sml_mpi_communicator *sml_mpi_communicator_of(MPI_Comm comm, bool make);

void sml_mpi_communicator_use(struct sml_mpi_communicator *communicator);
/* With the last use of a freed communicator its job is closed, by a thread of its own. */
void sml_mpi_communicator_release(struct sml_mpi_communicator *communicator);

/* MPI's number for how the job has failed; its text is the library's sentence. */
int sml_mpi_error_code(struct sml_mpi_communicator *communicator, int error);

/* The communicator's error handler gets it. Returns it, for MPI's call to return. */
int sml_mpi_raise(struct sml_mpi_communicator *communicator, int error_code);

/* Close all jobs and wait for it, while MPI goes on. Before MPI_Finalize. */
void sml_mpi_communicators_close(void);

/* True between the first communicator's making and MPI_Finalize. */
bool sml_mpi_is_used(void);

#endif
