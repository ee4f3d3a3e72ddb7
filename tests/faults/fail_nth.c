/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See fail_nth.h. This file is built without sanitizers, because malloc() is called before
 * they are ready. In a sanitizer build, the next malloc() is the sanitizer's.
 */
#include "faults/fail_nth.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define INTERPOSED __attribute__((visibility("default")))

static bool armed, onwards;
static enum fail_what armed_for;
static unsigned count, nth;
static const char *culprit_name;
static void *culprit_caller;
static _Thread_local bool exempt;

void fail_arm(enum fail_what what, unsigned n, bool and_onwards)
{
	armed_for = what;
	nth = n;
	onwards = and_onwards;
	count = 0;
	culprit_name = NULL;
	__atomic_store_n(&armed, true, __ATOMIC_SEQ_CST);
}

unsigned fail_disarm(void)
{
	__atomic_store_n(&armed, false, __ATOMIC_SEQ_CST);
	return count;
}

void fail_exempt(bool is_exempt)
{
	exempt = is_exempt;
}

const char *fail_culprit(void)
{
	static char text[256];
	Dl_info caller;

	if (culprit_name == NULL)
		return "";
	if (dladdr(culprit_caller, &caller) && caller.dli_sname)
		snprintf(text, sizeof(text), "%s() called by %s", culprit_name, caller.dli_sname);
	else if (dladdr(culprit_caller, &caller) && caller.dli_fname)
		snprintf(text, sizeof(text), "%s() called by %s+%#tx", culprit_name,
			 caller.dli_fname, (char *)culprit_caller - (char *)caller.dli_fbase);
	else
		snprintf(text, sizeof(text), "%s()", culprit_name);
	return text;
}

/* Must this call fail? once: only one call fails, not all that follow. */
static bool fails(enum fail_what what, const char *name, bool once, void *caller)
{
	unsigned mine;

	if (!__atomic_load_n(&armed, __ATOMIC_RELAXED) || exempt)
		return false;
	/* What makes descriptors is a system call, too. */
	if (what != armed_for && !(what == FAIL_DESCRIPTORS && armed_for == FAIL_SYSTEM_CALLS))
		return false;
	mine = __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
	if (mine != nth && !(onwards && mine > nth && !once))
		return false;
	if (mine == nth) {
		culprit_caller = caller;
		culprit_name = name;
	}
	return true;
}

/* ---- system calls ---- */

/*
 * X(result, name, (parameters), (arguments), result of a failed call, errno). The errors are
 * those of a machine at its limits, or of an interrupted call. read() and write() are
 * missing, because libswitchml uses them only on eventfds, where they cannot fail.
 */
#define FAIL_LIST(X)                                                                               \
	X(int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1, EMFILE) \
	X(int, bind, (int fd, const struct sockaddr *address, socklen_t n), (fd, address, n), -1,  \
	  EADDRINUSE)                                                                              \
	X(int, connect, (int fd, const struct sockaddr *address, socklen_t n), (fd, address, n),   \
	  -1, ENETUNREACH)                                                                         \
	X(int, listen, (int fd, int n), (fd, n), -1, EADDRINUSE)                                   \
	X(int, accept, (int fd, struct sockaddr *address, socklen_t *n), (fd, address, n), -1,     \
	  EMFILE)                                                                                  \
	X(int, accept4, (int fd, struct sockaddr *address, socklen_t *n, int flags),               \
	  (fd, address, n, flags), -1, EMFILE)                                                     \
	X(int, getsockname, (int fd, struct sockaddr *address, socklen_t *n), (fd, address, n),    \
	  -1, ENOBUFS)                                                                             \
	X(int, setsockopt, (int fd, int level, int name, const void *value, socklen_t n),          \
	  (fd, level, name, value, n), -1, ENOPROTOOPT)                                            \
	X(int, getsockopt, (int fd, int level, int name, void *value, socklen_t *n),               \
	  (fd, level, name, value, n), -1, ENOPROTOOPT)                                            \
	X(ssize_t, send, (int fd, const void *bytes, size_t n, int flags), (fd, bytes, n, flags),  \
	  -1, ENOBUFS)                                                                             \
	X(ssize_t, recv, (int fd, void *bytes, size_t n, int flags), (fd, bytes, n, flags), -1,    \
	  ECONNRESET)                                                                              \
	X(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags),                     \
	  (fd, message, flags), -1, ENOBUFS)                                                       \
	X(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags), -1, \
	  ENOMEM)                                                                                  \
	X(int, sendmmsg, (int fd, struct mmsghdr *messages, unsigned n, int flags),                \
	  (fd, messages, n, flags), -1, ENOBUFS)                                                   \
	X(int, recvmmsg,                                                                           \
	  (int fd, struct mmsghdr *messages, unsigned n, int flags, struct timespec *timeout),     \
	  (fd, messages, n, flags, timeout), -1, ENOMEM)                                           \
	X(ssize_t, readv, (int fd, const struct iovec *parts, int n), (fd, parts, n), -1,          \
	  ECONNRESET)                                                                              \
	X(ssize_t, writev, (int fd, const struct iovec *parts, int n), (fd, parts, n), -1, EPIPE)  \
	X(int, epoll_create1, (int flags), (flags), -1, EMFILE)                                    \
	X(int, epoll_ctl, (int fd, int op, int of, struct epoll_event *event),                     \
	  (fd, op, of, event), -1, ENOSPC)                                                         \
	X(int, epoll_wait, (int fd, struct epoll_event *events, int n, int ms),                    \
	  (fd, events, n, ms), -1, EINTR)                                                          \
	X(int, eventfd, (unsigned value, int flags), (value, flags), -1, EMFILE)                   \
	X(int, pipe2, (int fds[2], int flags), (fds, flags), -1, EMFILE)                           \
	X(int, poll, (struct pollfd * fds, nfds_t n, int ms), (fds, n, ms), -1, EINTR)             \
	X(int, ppoll,                                                                              \
	  (struct pollfd * fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask),   \
	  (fds, n, timeout, mask), -1, EINTR)                                                      \
	X(int, memfd_create, (const char *name, unsigned flags), (name, flags), -1, EMFILE)        \
	X(int, getifaddrs, (struct ifaddrs * *list), (list), -1, EMFILE)                           \
	X(int, getaddrinfo,                                                                        \
	  (const char *host, const char *service, const struct addrinfo *hints,                    \
	   struct addrinfo **found),                                                               \
	  (host, service, hints, found), EAI_MEMORY, 0)                                            \
	X(int, pthread_create,                                                                     \
	  (pthread_t * thread, const pthread_attr_t *attributes, void *(*body)(void *),            \
	   void *argument),                                                                        \
	  (thread, attributes, body, argument), EAGAIN, 0)

#define FAIL_DEFINE(type, name, parameters, arguments, failure, error)                             \
	INTERPOSED type name parameters;                                                           \
	type name parameters                                                                       \
	{                                                                                          \
		static type(*next) parameters;                                                     \
                                                                                                   \
		if (__atomic_load_n(&next, __ATOMIC_RELAXED) == NULL)                              \
			__atomic_store_n(&next, (type(*) parameters)dlsym(RTLD_NEXT, #name),       \
					 __ATOMIC_RELAXED);                                        \
		if (fails((error) == EMFILE ? FAIL_DESCRIPTORS : FAIL_SYSTEM_CALLS, #name,         \
			  (error) == EINTR, __builtin_return_address(0))) {                        \
			if (error)                                                                 \
				errno = error;                                                     \
			return failure;                                                            \
		}                                                                                  \
		return next arguments;                                                             \
	}

FAIL_LIST(FAIL_DEFINE)

INTERPOSED int open(const char *path, int flags, ...);
int open(const char *path, int flags, ...)
{
	static int (*next)(const char *, int, ...);
	va_list rest;
	mode_t mode;

	va_start(rest, flags);
	mode = va_arg(rest, mode_t);
	va_end(rest);
	if (next == NULL)
		next = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
	if (fails(FAIL_DESCRIPTORS, "open", false, __builtin_return_address(0))) {
		errno = EMFILE;
		return -1;
	}
	return next(path, flags, mode);
}

/* A sanitizer calls this in every new thread and cannot work without it. */
INTERPOSED int pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes);
int pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes)
{
	int (*next)(pthread_t, pthread_attr_t *) =
		(int (*)(pthread_t, pthread_attr_t *))dlsym(RTLD_NEXT, "pthread_getattr_np");
	bool before = exempt;
	int rc;

	exempt = true;
	rc = next(thread, attributes);
	exempt = before;
	return rc;
}

/* ---- allocations ---- */

/* Memory for dlsym() while it looks for the real functions. */
static _Alignas(16) char early[65536];
static size_t early_used;

static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);
static void *(*next_aligned_alloc)(size_t, size_t);
static int (*next_posix_memalign)(void **, size_t, size_t);
static void (*next_free)(void *);

/* False while dlsym() looks for them. */
static bool find_next(void)
{
	static bool looking, found;

	if (found)
		return true;
	if (looking)
		return false;
	looking = true;
	next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
	next_calloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
	next_realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
	next_aligned_alloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc");
	next_posix_memalign = (int (*)(void **, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
	next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
	found = true;
	looking = false;
	return true;
}

static void *take_early(size_t bytes)
{
	void *memory = early + early_used;

	bytes = (bytes + 15) & ~(size_t)15;
	if (bytes > sizeof(early) - early_used)
		abort();
	early_used += bytes;
	return memory;
}

static bool is_early(const void *memory)
{
	return (const char *)memory >= early && (const char *)memory < early + sizeof(early);
}

static bool allocation_fails(const char *name, void *caller)
{
	if (!fails(FAIL_ALLOCATIONS, name, false, caller))
		return false;
	errno = ENOMEM;
	return true;
}

INTERPOSED void *malloc(size_t bytes)
{
	if (!find_next())
		return take_early(bytes);
	if (allocation_fails("malloc", __builtin_return_address(0)))
		return NULL;
	return next_malloc(bytes);
}

INTERPOSED void *calloc(size_t n, size_t bytes)
{
	if (!find_next())
		return take_early(n * bytes);
	if (allocation_fails("calloc", __builtin_return_address(0)))
		return NULL;
	return next_calloc(n, bytes);
}

INTERPOSED void *realloc(void *memory, size_t bytes)
{
	void *moved;

	if (!find_next() || is_early(memory)) {
		/*
		 * Early blocks are small, and so is the memory behind them: copying too much does
		 * no harm.
		 */
		size_t most = (size_t)(early + sizeof(early) - (char *)memory);

		moved = malloc(bytes);
		if (moved && memory)
			memcpy(moved, memory, bytes < most ? bytes : most);
		return moved;
	}
	if (allocation_fails("realloc", __builtin_return_address(0)))
		return NULL;
	return next_realloc(memory, bytes);
}

INTERPOSED void *aligned_alloc(size_t alignment, size_t bytes)
{
	find_next();
	if (allocation_fails("aligned_alloc", __builtin_return_address(0)))
		return NULL;
	return next_aligned_alloc(alignment, bytes);
}

INTERPOSED int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
	find_next();
	if (allocation_fails("posix_memalign", __builtin_return_address(0)))
		return ENOMEM;
	return next_posix_memalign(memory, alignment, bytes);
}

INTERPOSED void free(void *memory)
{
	if (memory == NULL || is_early(memory))
		return;
	if (find_next())
		next_free(memory);
}
