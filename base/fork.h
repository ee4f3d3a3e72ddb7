/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets that a child made by fork() must not keep. It has no threads that serve them, but as
 * long as it lives their peers would not hear that this process has ended, and a port that it
 * listens on would be taken.
 *
 * The invariant: a descriptor is in the list for as long as it is ours, and no longer.
 */
#ifndef SML_BASE_FORK_H
#define SML_BASE_FORK_H

/* From now on children close it. Returns fd, which may be negative: then it is nothing. */
int sml_fd_own(int fd);

/* Close it, here alone. */
void sml_fd_close(int fd);

/*
 * Close a connected or listening socket for good: where a child holds it after all (it was made
 * without the handlers of pthread_atfork()), its peer and its port are free all the same.
 */
void sml_fd_shut(int fd);

#endif
