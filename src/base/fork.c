/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See fork.h. The list has one bit per descriptor. In a child, locks that other threads held stay
 * locked and malloc() must not be called, but reading a bit is safe.
 */
#include "base/fork.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

/* Linux's default fs.nr_open. Children keep descriptors beyond it. */
#define MAX_FDS	  (1 << 20)
#define WORD_BITS 64

static pthread_once_t once = PTHREAD_ONCE_INIT;
/* Held while the list changes and during fork(), so that a child never sees half a change. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t owned[MAX_FDS / WORD_BITS];
static int n_words; /* no bit is set beyond them */

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
	pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
	for (int i = 0; i < n_words; i++)
		for (; owned[i]; owned[i] &= owned[i] - 1)
			close(i * WORD_BITS + __builtin_ctzll(owned[i]));
	n_words = 0;
	pthread_mutex_unlock(&lock);
}

static void mind_forks(void)
{
	(void)pthread_atfork(before_fork, in_parent, in_child);
}

int sml_fd_lift(int fd)
{
	int moved, error;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	error = errno;

	close(fd);
	errno = error;
	return moved;
}

int sml_fd_own(int fd)
{
	fd = sml_fd_lift(fd);
	if (fd < 0 || fd >= MAX_FDS)
		return fd;
	pthread_once(&once, mind_forks);
	pthread_mutex_lock(&lock);
	owned[fd / WORD_BITS] |= (uint64_t)1 << fd % WORD_BITS;
	if (n_words <= fd / WORD_BITS)
		n_words = fd / WORD_BITS + 1;
	pthread_mutex_unlock(&lock);
	return fd;
}

void sml_fd_close(int fd)
{
	/* Under one lock: another thread's next socket may get this number at once. */
	pthread_mutex_lock(&lock);
	if (fd >= 0 && fd < MAX_FDS)
		owned[fd / WORD_BITS] &= ~((uint64_t)1 << fd % WORD_BITS);
	close(fd);
	pthread_mutex_unlock(&lock);
}

void sml_fd_shut(int fd)
{
	(void)shutdown(fd, SHUT_RDWR);
	sml_fd_close(fd);
}
