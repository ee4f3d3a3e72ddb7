/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets that a child made by fork() must not keep. The child has no threads that serve them. But
 * while it lives, their peers would not notice the end of this process, and a listening port would
 * stay taken.
 *
 * The invariant: a descriptor is in the list exactly as long as the library owns it.
 */
#ifndef SML_BASE_FORK_H
#define SML_BASE_FORK_H

/*
 * Returns fd, which was just made, or another number for it that is not that of standard input,
 * output or error: what a program prints to a closed descriptor must not reach our peers. Returns
 * -1 if no number is left. A negative fd is returned unchanged.
 */
int sml_fd_lift(int fd);

/* As sml_fd_lift(), and children close the descriptor from now on. */
int sml_fd_own(int fd);

/* Close fd in this process only. */
void sml_fd_close(int fd);

/*
 * Close a connected or listening socket for good, even if a child still holds it (because it was
 * created without the handlers of pthread_atfork()): its peer sees the end, and its port is free.
 */
void sml_fd_shut(int fd);

#endif
