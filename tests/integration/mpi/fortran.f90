! SPDX-License-Identifier: BSD-3-Clause
! Fortran's calls, through the modules mpi and mpi_f08: sums, in place and not in place,
! on a separate communicator, of types that only Fortran has.

module by_mpi
  use mpi
  implicit none
contains
  subroutine sum_in_place(data, n)
    integer, intent(in) :: n
    double precision, intent(inout) :: data(n)
    integer :: error
    call MPI_Allreduce(MPI_IN_PLACE, data, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
    if (error /= MPI_SUCCESS) data = -1
  end subroutine

  subroutine largest(send, recv, n)
    integer, intent(in) :: n, send(n)
    integer, intent(out) :: recv(n)
    integer :: error, other
    call MPI_Comm_dup(MPI_COMM_WORLD, other, error)
    call MPI_Allreduce(send, recv, n, MPI_INTEGER, MPI_MAX, other, error)
    if (error /= MPI_SUCCESS) recv = -1
    call MPI_Comm_free(other, error)
  end subroutine
end module

program main
  use mpi_f08
  use by_mpi, only: sum_in_place, largest
  implicit none
  integer, parameter :: n = 100003
  double precision :: doubles(n)
  real :: reals(n), sums(n)
  integer :: numbers(n), maxima(n)
  integer :: rank, ranks, i, wrong, all

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  wrong = 0

  do i = 1, n
     doubles(i) = dble(mod(i, 1000) * (rank + 1)) + 0.5d0
     reals(i) = real(mod(i, 100) + rank)
     numbers(i) = mod(i, 77) * (rank + 1) - 30
  end do
  call sum_in_place(doubles, n)
  call MPI_Allreduce(reals, sums, n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD)
  call largest(numbers, maxima, n)
  do i = 1, n
     if (doubles(i) /= dble(mod(i, 1000) * ranks * (ranks + 1) / 2) + 0.5d0 * ranks) wrong = wrong + 1
     if (sums(i) /= real(mod(i, 100) * ranks + ranks * (ranks - 1) / 2)) wrong = wrong + 1
     if (maxima(i) /= mod(i, 77) * ranks - 30) wrong = wrong + 1
  end do

  ! In place through mpi_f08, and one of MPI's own requests.
  call nonblocking()
  call MPI_Reduce(wrong, all, 1, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD)
  if (rank == 0) print '(i0, a)', all, ' wrong'
  call MPI_Finalize()
  if (wrong /= 0) stop 1

contains
  subroutine nonblocking()
    type(MPI_Request) :: request
    real, asynchronous, save :: asynchronous_reals(n)

    reals = real(rank)
    call MPI_Allreduce(MPI_IN_PLACE, reals, n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD)
    asynchronous_reals = real(rank)
    call MPI_Iallreduce(MPI_IN_PLACE, asynchronous_reals, n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    if (any(reals /= real(ranks * (ranks - 1) / 2))) wrong = wrong + 1
    if (any(asynchronous_reals /= real(ranks * (ranks - 1) / 2))) wrong = wrong + 1
  end subroutine
end program
