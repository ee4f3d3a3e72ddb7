/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fortran programs under Open MPI, whose Fortran calls do not go through its C calls.
 * (MPICH's do.) Each call here has the names that Fortran compilers use, and the name that
 * the module mpi_f08 calls. It makes the C call of this library.
 *
 * This covers blocking calls only: a request of MPI_Iallreduce() in Fortran is MPI's own, so
 * Fortran's calls that complete requests need no version here.
 */
#include <mpi.h>

#ifdef OPEN_MPI

#define SML_EXPORT __attribute__((visibility("default")))

#define NAMES(lower, UPPER, arguments)                                                             \
	SML_EXPORT void ompi_##lower##_f arguments;                                                \
	SML_EXPORT void mpi_##lower arguments __attribute__((alias("ompi_" #lower "_f")));         \
	SML_EXPORT void mpi_##lower##_ arguments __attribute__((alias("ompi_" #lower "_f")));      \
	SML_EXPORT void mpi_##lower##__ arguments __attribute__((alias("ompi_" #lower "_f")));     \
	SML_EXPORT void MPI_##UPPER arguments __attribute__((alias("ompi_" #lower "_f")))

NAMES(allreduce, ALLREDUCE,
      (void *send, void *recv, const MPI_Fint *count, const MPI_Fint *type, const MPI_Fint *op,
       const MPI_Fint *comm, MPI_Fint *error));
NAMES(finalize, FINALIZE, (MPI_Fint * error));

/* Fortran's constants are addresses. A C program has none of them. */
extern int mpi_fortran_in_place_ __attribute__((weak));
extern int mpi_fortran_bottom_ __attribute__((weak));

static void *buffer_of(void *buffer)
{
	if (buffer != NULL && buffer == (void *)&mpi_fortran_in_place_)
		return MPI_IN_PLACE;
	if (buffer != NULL && buffer == (void *)&mpi_fortran_bottom_)
		return MPI_BOTTOM;
	return buffer;
}

static void tell(MPI_Fint *error, int value)
{
	if (error)
		*error = value;
}

void ompi_allreduce_f(void *send, void *recv, const MPI_Fint *count, const MPI_Fint *type,
		      const MPI_Fint *op, const MPI_Fint *comm, MPI_Fint *error)
{
	tell(error, MPI_Allreduce(buffer_of(send), buffer_of(recv), *count, PMPI_Type_f2c(*type),
				  PMPI_Op_f2c(*op), PMPI_Comm_f2c(*comm)));
}

void ompi_finalize_f(MPI_Fint *error)
{
	tell(error, MPI_Finalize());
}
#endif
