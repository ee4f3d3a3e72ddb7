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

  call nonblocking()
  call several()
  call others()
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

  ! Requests of the switch and one of MPI, in every call that completes several.
  subroutine several()
    integer, parameter :: many = 3
    type(MPI_Request) :: requests(many + 1)
    type(MPI_Status) :: statuses(many + 1)
    real, asynchronous, save :: data(n, many)
    integer, asynchronous, save :: token, sent
    integer :: how, i, found, done, indices(many + 1)
    logical :: flag

    do how = 1, 7
       sent = 100 * how + rank
       do i = 1, many
          data(:, i) = real(rank + i)
          call MPI_Iallreduce(MPI_IN_PLACE, data(:, i), n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, requests(i))
       end do
       call MPI_Irecv(token, 1, MPI_INTEGER, modulo(rank - 1, ranks), how, MPI_COMM_WORLD, requests(many + 1))
       call MPI_Send(sent, 1, MPI_INTEGER, modulo(rank + 1, ranks), how, MPI_COMM_WORLD)
       done = 0
       do while (done < many + 1)
          found = 1
          select case (how)
          case (1)
             call MPI_Waitall(many + 1, requests, statuses)
             if (statuses(many + 1)%MPI_TAG /= how) wrong = wrong + 1
             found = many + 1
          case (2)
             call MPI_Testall(many + 1, requests, flag, MPI_STATUSES_IGNORE)
             found = merge(many + 1, 0, flag)
          case (3)
             call MPI_Waitany(many + 1, requests, i, statuses(1))
             if (i == many + 1 .and. statuses(1)%MPI_TAG /= how) wrong = wrong + 1
          case (4)
             call MPI_Testany(many + 1, requests, i, flag, MPI_STATUS_IGNORE)
             found = merge(1, 0, flag)
          case (5)
             call MPI_Waitsome(many + 1, requests, found, indices, statuses)
             do i = 1, found
                if (indices(i) == many + 1 .and. statuses(i)%MPI_TAG /= how) wrong = wrong + 1
             end do
          case (6)
             call MPI_Testsome(many + 1, requests, found, indices, MPI_STATUSES_IGNORE)
          case (7)
             found = 0
             ! With MPI_STATUS_IGNORE, Open MPI 4.1.4's own is never true.
             call MPI_Request_get_status(requests(done + 1), flag, statuses(1))
             if (flag) call MPI_Test(requests(done + 1), flag, statuses(1))
             if (flag) found = 1
          end select
          done = done + found
       end do
       do i = 1, many + 1
          if (requests(i) /= MPI_REQUEST_NULL) wrong = wrong + 1
       end do
       do i = 1, many
          if (any(data(:, i) /= real(ranks * (ranks - 1) / 2 + ranks * i))) wrong = wrong + 1
       end do
       if (token /= 100 * how + modulo(rank - 1, ranks)) wrong = wrong + 1
    end do
    call MPI_Waitany(many + 1, requests, i, MPI_STATUS_IGNORE)
    if (i /= MPI_UNDEFINED) wrong = wrong + 1
  end subroutine

  subroutine others()
    real, save :: whole(n), part(n)
    integer :: each

    each = n / ranks
    whole = real(rank + 1)
    part = -1
    call MPI_Reduce(whole, part, n, MPI_REAL, MPI_SUM, ranks - 1, MPI_COMM_WORLD)
    if (any(part /= merge(real(ranks * (ranks + 1) / 2), -1.0, rank == ranks - 1))) wrong = wrong + 1
    part = -1
    call MPI_Reduce_scatter_block(whole, part, each, MPI_REAL, MPI_SUM, MPI_COMM_WORLD)
    if (any(part(1:each) /= real(ranks * (ranks + 1) / 2))) wrong = wrong + 1
    if (any(part(each + 1:) /= -1)) wrong = wrong + 1
    call MPI_Bcast(whole, n, MPI_REAL, ranks - 1, MPI_COMM_WORLD)
    if (any(whole /= real(ranks))) wrong = wrong + 1
    call MPI_Barrier(MPI_COMM_WORLD)
  end subroutine
end program
