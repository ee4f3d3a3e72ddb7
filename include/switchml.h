/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * switchml.h - all-reduce summed inside the network: the public interface.
 *
 * A *job* is a fixed group of processes, its *ranks*. Each rank opens a context, makes the same
 * collective calls in the same order, and closes it. Sums are computed by `switchml switch` daemons
 * on the network, by parts of a switch in the ranks, or in the memory of one host. What combines
 * nothing and differs between ranks (all-to-all, send and receive) is left to other libraries.
 *
 *	struct sml_context *job;
 *	if (sml_open(&job, NULL) < 0)
 *		errx(1, "%s", sml_error_text(NULL));
 *	sml_allreduce(job, gradient, gradient, n, SML_FLOAT32, SML_AVG, NULL, NULL);
 *	sml_close(job);
 *
 * Errors. A call that can fail returns 0 or a negative number: -1 to -4095 is a negated errno, and
 * below that is enum sml_error. sml_error_text() says what happened and what to do. After -EINVAL,
 * the call was wrong and the job goes on. Any other failed collective leaves its receive buffer
 * undefined, and all later calls on the context fail with the same error: close it and open
 * another one, or go on with the ranks that are left, with sml_reconfigure().
 *
 * Time. A call takes at most the context's timeout; sml_open() also waits for the resolver.
 *
 * Threads. Several threads may use a context. The order of their calls is the order of the
 * collectives, and must be the same on all ranks. No call may overlap the context's sml_open() or
 * sml_close(). The library's own threads block all signals; if they are the only threads left
 * after pthread_exit() in main, one of them receives signals after a second. A cancelled thread
 * ends after the call, which sml_abort() ends at once.
 *
 * Fork. In a child, calls on the parent's contexts fail with SML_ERROR_FORKED. The child may open
 * contexts, and holds none of the parent's sockets.
 *
 * Structures. Begin each with its SML_..._INIT (or set size to its own), and then set members.
 * A shorter one, of an older program, is accepted: what it lacks has its default, and nothing
 * beyond its size is written. A longer one is accepted if what this library does not know is zero.
 * Else the call fails: sml_config_init() and sml_open() with SML_ERROR_CONFIG, others with -EINVAL.
 * Structures grow only at their end, and enumerations get values; anything else changes the soname
 * (docs/c.md).
 */
#ifndef SWITCHML_H
#define SWITCHML_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SML_VERSION_MAJOR  0
#define SML_VERSION_MINOR  1
#define SML_VERSION_PATCH  0
#define SML_VERSION_STRING "0.1.0"
#define SML_VERSION_NUMBER /* ascending: 1.2.3 is 1002003 */                                       \
	(SML_VERSION_MAJOR * 1000000 + SML_VERSION_MINOR * 1000 + SML_VERSION_PATCH)

#define SML_MAX_WORLD_SIZE 4096 /* More than 64 need a tree (switchml switch --parent). */

#define SML_API __attribute__((visibility("default")))

/* SwitchML's errors, with sml_strerror()'s texts. docs/errors.md explains each. */
#define SML_ERROR_LIST(X)                                                                          \
	X(-5001, SML_ERROR_CONFIG, "a setting is missing or wrong")                                \
	X(-5002, SML_ERROR_UNREACHABLE, "the switch cannot be reached")                            \
	X(-5003, SML_ERROR_REFUSED, "the switch refused the job")                                  \
	X(-5004, SML_ERROR_MISMATCH, "ranks disagree")                                             \
	X(-5005, SML_ERROR_RANK_DIED, "another rank of the job died")                              \
	X(-5006, SML_ERROR_SWITCH_DIED, "the connection to the switch ended")                      \
	X(-5007, SML_ERROR_TIMEOUT, "the deadline passed")                                         \
	X(-5008, SML_ERROR_ABORTED, "the job was aborted")                                         \
	X(-5009, SML_ERROR_CLOSED, "the context is closed or has left")                            \
	X(-5010, SML_ERROR_FORKED, "the context belongs to the parent process")                    \
	X(-5011, SML_ERROR_PROTOCOL, "the peer broke the protocol")                                \
	X(-5012, SML_ERROR_VERSION, "library and switch are of different versions")                \
	X(-5013, SML_ERROR_TLS, "TLS with the switch failed")

enum sml_error {
	SML_ERROR_NONE = 0,
#define SML_ERROR_ENUM(number, name, text) name = number,
	SML_ERROR_LIST(SML_ERROR_ENUM)
#undef SML_ERROR_ENUM
};

/* The type of a tensor's elements. The numbers are on the wire: never renumber. */
enum sml_type {
	SML_FLOAT32 = 0,
	SML_FLOAT16 = 1,  /* IEEE 754 binary16, as uint16_t in memory */
	SML_BFLOAT16 = 2, /* upper half of a float32, as uint16_t in memory */
	SML_INT32 = 3,
	SML_BYTE = 4, /* only for calls that copy, because it has no arithmetic */
	SML_FLOAT64 = 5,
	SML_INT64 = 6,
	SML_UINT8 = 7,
	SML_INT8 = 8,
	SML_INT16 = 9,
	SML_BOOL = 10 /* one byte, which is 0 or not 0; SUM and MAX are "or", and MIN is "and" */
};
#define SML_TYPES (SML_BOOL + 1) /* all numbers below are types */

/*
 * How elements are combined. SUM of integers wraps around. AVG of integers rounds toward zero, of
 * int32 and int64 after wrapping; SML_BOOL has none. In MAX and MIN, a NaN makes the element NaN.
 */
enum sml_op { SML_SUM = 0, SML_AVG = 1, SML_MAX = 2, SML_MIN = 3 };

/*
 * How floats travel; docs/numbers.md has bytes and errors. Integers are never rounded.
 *
 * EXACT: as they are. Each element of the result is the exact SUM or AVG, rounded once to the type.
 * At XDP and P4 switches, for float64, and where parts of the ranks are behind leaves of a tree or
 * share hosts, or have done so, every rank receives every rank's elements: world_size times the
 * bytes. A call that asks for EXACT fails with -EINVAL where a packet has no room for an element of
 * every rank. One that has it from the context travels, without that room, as by DEFAULT where all
 * switches add floats, else as INT32, or INT64 if it is float64.
 *
 * INT32, INT16, INT8: fixed point with one exponent for each block of neighbors (256 with INT32,
 * else 64), so small elements beside a large one lose bits. INT8 serves only SUM and AVG of
 * float32, float16 and bfloat16, where the switch rounds (P4's staged form does not, and refuses
 * it). Other calls ignore it in the context; in a call's own options it is -EINVAL.
 *
 * INT64: 63 bits below the block's largest (59 with more than 1,024 ranks). Always float64's
 * default: the sum is exact for elements within 2^10 of the largest (2^6), and rounded once.
 *
 * DEFAULT: EXACT where all of the job's switches add floats (UDP, stripes, shared memory), once in
 * each direction: a leaf of a tree, or a host of several, rounds its part, too. If one switch adds
 * only integers (XDP, P4): EXACT in vectors of at most 8 KiB, or if world_size elements have
 * at most 12 bytes; else, or where a packet has no room for that, INT64.
 *
 * GRADIENT, in a call's options, is for sums of gradients: DEFAULT, except at XDP and P4 switches
 * if DEFAULT is the context's wire, too. There it is INT32 for float32, and INT16 for float16 and
 * bfloat16. If a switch does not round sums (P4), float16 is INT32, too, and so is bfloat16 with
 * more than 16 ranks, or if a switch has only int32 lanes.
 */
enum sml_wire {
	SML_WIRE_DEFAULT = 0,
	SML_WIRE_INT32 = 1,
	SML_WIRE_INT16 = 2,
	SML_WIRE_INT64 = 3, /* for float64 only: 12 bytes for each element */
	SML_WIRE_EXACT = 4,
	SML_WIRE_INT8 = 5,
	SML_WIRE_GRADIENT = 6
};

/* What is logged: each level has those before it, too. INFO: the settings that were chosen. */
enum sml_log_level { SML_LOG_ERROR = 0, SML_LOG_WARN = 1, SML_LOG_INFO = 2, SML_LOG_TRACE = 3 };

struct sml_context;
struct sml_request;

/*
 * Settings of a context. sml_config_init() fills them in; change what you want, then open:
 *
 *	struct sml_config config = SML_CONFIG_INIT;
 *	if (sml_config_init(&config) == 0) {
 *		config.timeout_ms = 60000;
 *		error = sml_open(&job, &config);
 *	}
 *
 * sml_open() copies all strings but job_key. Those of sml_config_init() are the environment's: do
 * not free them. Each comment ends with the member's variable and default. Without SWITCHML_RANK
 * and SWITCHML_WORLD_SIZE, the launcher's variables count (docs/environment.md).
 */
struct sml_config {
	size_t size; /* sizeof(struct sml_config) */
	/*
	 * "host[:port]". A comma stripes the job over switches ("a,b"); a bar adds ones to fail
	 * over to ("a,b|c,d"). NULL or "": ranks embed parts of a switch, and share memory on a
	 * host. "embedded": every rank embeds one, also on one host. SWITCHML_SWITCH.
	 */
	const char *switch_address;
	/* The job's name, the same on all ranks. SWITCHML_JOB, this run of the launcher. */
	const char *job;
	int rank;	/* 0 to world_size - 1. SWITCHML_RANK. */
	int world_size; /* 1 to SML_MAX_WORLD_SIZE. SWITCHML_WORLD_SIZE. */
	/* Rank 0, where ranks meet without a switch. SWITCHML_MASTER_ADDR, 127.0.0.1. */
	const char *master_address;
	int master_port; /* SWITCHML_MASTER_PORT, 0: the launcher's MASTER_PORT + 1, or 28500. */

	/* The longest that a call takes, waiting for others included. SWITCHML_TIMEOUT, 1800 s. */
	int timeout_ms;
	/* A peer that is silent for this long counts as dead. SWITCHML_HEARTBEAT, 5 s. */
	int heartbeat_ms;
	/* How floats travel. SWITCHML_WIRE=int32|int16|int8|exact, SML_WIRE_DEFAULT. */
	enum sml_wire wire;
	int slots;   /* Slots to request of each switch. SWITCHML_SLOTS, 0: it chooses. */
	int threads; /* Progress threads. SWITCHML_THREADS, 0: by the cores for each rank. */
	int mtu;     /* Largest packet in bytes, with IP header. SWITCHML_MTU, 0: the path's. */
	/* Prefixes of interfaces: "eth0,ib", or not "^lo,docker". SWITCHML_SOCKET_IFNAME, NULL. */
	const char *interface;
	enum sml_log_level debug; /* SWITCHML_DEBUG=error|warn|info|trace, SML_LOG_WARN. */
	int spin;		  /* 1: threads busy-wait, for low latency. SWITCHML_SPIN, 0. */
	const char *faults;	  /* Only for tests of SwitchML. SWITCHML_FAULTS, NULL. */
	/*
	 * What is recorded, and where: "trace:PATH,metrics:PATH,failure:PATH", in which "%r"
	 * becomes the rank (docs/environment.md). SWITCHML_RECORD, NULL.
	 */
	const char *record;

	/* PEM files for TLS 1.3, all or none. SWITCHML_TLS_CERTIFICATE, _KEY, _AUTHORITY, NULL. */
	const char *tls_certificate, *tls_key, *tls_authority;
	const char *job_key; /* Or a secret of 16 to 1024 bytes, the same on all ranks. NULL. */
	const char *job_key_file; /* Or a file with that secret. SWITCHML_JOB_KEY_FILE, NULL. */

	/*
	 * Gets log lines; NULL: standard error does. text has no newline, and is valid during the
	 * call. Any thread may call it, several at once, holding locks of the library, until
	 * sml_close() has returned. It must wait for no thread that is in a call, and call only
	 * sml_strerror() and sml_version(). An embedded control port logs to standard error.
	 */
	void (*log)(void *log_self, enum sml_log_level level, const char *text);
	void *log_self;
	/*
	 * sml_open() fails with -EINTR soon after *interrupt has become nonzero, unless it waits
	 * for the resolver. Set it with an atomic store, also in a signal handler. NULL.
	 */
	const volatile int *interrupt;

	/* "FIRST-LAST": only such ports are opened; master_port is one. SWITCHML_PORTS, NULL. */
	const char *ports;
	/* 1, -1: ranks of a host add in memory that they share. 0: not. SWITCHML_SHARED_MEMORY. */
	int shared_memory;
	/* A rank that waits for longer logs for what. 0: it does not. SWITCHML_WAIT_NOTICE, 5 s. */
	int wait_notice_ms;
	/* 1: rank 0 logs a job's begin and end; 2: MPI ranks, too. SWITCHML_SUMMARY=0|1|all, 1. */
	int summary;
	/* 1: a new process of an elastic job waits to be let in, without rank. SWITCHML_JOIN, 0. */
	int join;
	int min_ranks, max_ranks; /* Bounds if the switch decides on members. 0: none. */
	int master_listens; /* 1: rank 0 listened before it told its address. 0: it may come. */
};
#define SML_CONFIG_INIT                                                                            \
	{                                                                                          \
		sizeof(struct sml_config), NULL, NULL, 0, 0, NULL, 0, 0, 0, SML_WIRE_DEFAULT, 0,   \
			0, 0, NULL, SML_LOG_ERROR, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL,    \
			NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0                                \
	}

/* Set every member to its default, or to the environment's value. Returns 0 or SML_ERROR_CONFIG. */
SML_API int sml_config_init(struct sml_config *config);

/*
 * Join a job, and wait until all of its ranks have joined. config NULL is what sml_config_init()
 * sets. *context is valid until sml_close(), or NULL after an error (sml_error_text(NULL)).
 *
 * Errors: SML_ERROR_CONFIG, SML_ERROR_UNREACHABLE (no switch answers, or no UDP packet came back),
 * SML_ERROR_REFUSED (the switch has no room, or the job has such a rank), SML_ERROR_MISMATCH (ranks
 * disagree about the job), SML_ERROR_RANK_DIED (with join: open again), SML_ERROR_SWITCH_DIED (and
 * the job could begin at no other address within ten seconds), SML_ERROR_TIMEOUT (ranks are
 * missing), SML_ERROR_VERSION, SML_ERROR_TLS, -EINTR (interrupt), -ENOMEM, and others of errno.
 */
SML_API int sml_open(struct sml_context **context, const struct sml_config *config);

/*
 * Leave the job and free the context, also after an error. Requests that nobody waited for are
 * freed, too. It waits until every rank has asked to leave, so that none is cut off in a call, but
 * at most the timeout. Returns 0, or the error that ended the job. context may be NULL.
 */
SML_API int sml_close(struct sml_context *context);

/* The next membership of an elastic job, for sml_reconfigure(). */
struct sml_membership {
	size_t size; /* sizeof(struct sml_membership) */
	/* Never used before, and the same on all members. NULL: the switch decides on them. */
	const char *job;
	int rank, world_size; /* of this process; both 0 if the switch decides */
	/* Without a switch: where the new rank 0 listens. NULL and 0: where the old one did. */
	const char *master_address;
	int master_port;
	int timeout_ms; /* The longest that sml_reconfigure() takes. 0: the context's timeout. */
	int min_ranks, max_ranks; /* If the switch decides: bounds. 0: the context's. */
	int wait_ms; /* If it decides: how long it waits for missing ranks. 0: the heartbeat. */
	/*
	 * With a name in job: of each of its ranks, the one that it had in this context's last job,
	 * or -1 if it was not in it. At the switch that ran that job (without one, nor TLS: at a
	 * rank 0 that was so, and listens where it did), nobody waits for such a rank for more than
	 * a heartbeat if its process or host has gone. At another switch, all wait. NULL: not said.
	 */
	const int *previous_ranks;
};
#define SML_MEMBERSHIP_INIT                                                                        \
	{                                                                                          \
		sizeof(struct sml_membership), NULL, 0, 0, NULL, 0, 0, 0, 0, 0, NULL               \
	}

/*
 * Leave this job, and wait until all ranks of the next have joined. After an error, those that are
 * left so go on without ranks that died; without one, ranks leave and join. The context stays. New
 * processes call sml_open() with the new name. docs/elastic.md has the whole story.
 *
 * Members. With a name in job, the program decides: all members pass the same job, world_size and
 * address of rank 0, and each its own rank. A process that is no member closes its context. With
 * job NULL, a dedicated switch decides: the members are the ranks that make this call within
 * wait_ms, in their old order, then waiting processes (join in struct sml_config) up to max_ranks.
 * sml_get_info() then describes them. Ranks that come too late, or all if they are fewer than
 * min_ranks, get SML_ERROR_REFUSED. A switch that did not run the job last decides only if all of
 * its ranks ask there; else SML_ERROR_TIMEOUT. All ranks use one form, or get SML_ERROR_MISMATCH.
 *
 * The old job ends at once, for all: calls in progress, and those of ranks that have not come here
 * yet, fail with SML_ERROR_ABORTED or the error that they had. So without an error, first let all
 * members have the results of their last call. Requests keep their result for sml_wait(). Calls of
 * other threads fail with SML_ERROR_CLOSED while this one waits for members.
 *
 * Progress. A failed call may be complete on some ranks. Those have the same bits, with the
 * contributions of all ranks. Calls before all that failed are complete on all. So compare step
 * numbers, and broadcast the state of the rank that is furthest (examples/elastic.c). A failed call
 * never writes send, unless it was in place: to repeat a call, pass different buffers.
 *
 * What stays: settings, counters, sml_event_fd()'s descriptor, and the port of a rank 0 without a
 * switch, also after an error, until this context is in another job. The rest is chosen as for a
 * new job.
 *
 * Errors: those of sml_open(), and SML_ERROR_ABORTED (sml_abort() ended the call): the context then
 * has no job, and its calls fail with that error, until sml_reconfigure() with another new name, or
 * sml_close(). -EINVAL (a wrong member, or the name of the last job), -EBUSY (another thread is in
 * this call) and SML_ERROR_FORKED change nothing. sml_error_text(NULL) says why.
 */
SML_API int sml_reconfigure(struct sml_context *context, const struct sml_membership *membership);

/* Where a job's numbers are added. */
enum sml_job_path {
	SML_PATH_NONE = 0,   /* the context has no job */
	SML_PATH_MEMORY = 1, /* in the memory of the one host that has all ranks: no packets */
	SML_PATH_RANKS = 2,  /* in a part of the switch in each of some ranks */
	SML_PATH_HOSTS = 3,  /* in a part of the switch on each host */
	SML_PATH_SWITCH = 4, /* at one switch, or several */
	SML_PATH_MEMORY_AND_SWITCH = 5 /* there, but the ranks of a host add in its memory first */
};

/* About a context and its job. */
struct sml_info {
	size_t size; /* sizeof(struct sml_info) */
	int has_tls; /* 1: the library has TLS. 0: certificates and job keys are refused. */
	int rank, world_size;
	/*
	 * If the switch decided on this membership: of each rank, the one that it had before, or -1
	 * if it is new. Else NULL. Valid until sml_reconfigure() or sml_close().
	 */
	const int *previous_ranks;
	int waiting; /* processes that wait to join; ranks may learn it a second apart */
	int stripes; /* each of m switches serves every m-th chunk; 0: there is no job */
	enum sml_job_path path;
	/* The same for people, as "the switch at tor1:28500". It changes in a failover. */
	char path_text[160];
};
#define SML_INFO_INIT                                                                              \
	{                                                                                          \
		sizeof(struct sml_info), 0, 0, 0, NULL, 0, 0, SML_PATH_NONE, ""                    \
	}

/*
 * Fill info; without a context (NULL), only has_tls. Returns 0, SML_ERROR_CLOSED while another
 * thread is in sml_reconfigure(), SML_ERROR_FORKED, or -EINVAL. Any thread may call it.
 */
SML_API int sml_get_info(const struct sml_context *context, struct sml_info *info);

/* The size of one element of a type in bytes. Returns 0 if there is no such type. */
SML_API size_t sml_type_size(enum sml_type type);

/* How one call is made. */
struct sml_options {
	size_t size;	    /* sizeof(struct sml_options) */
	enum sml_wire wire; /* SML_WIRE_DEFAULT: the context's. Calls that copy ignore it. */
	/* 1: this thread waits next, at once, and works then. Until then, nothing may happen. */
	int waits;
	/*
	 * The call's name, or NULL; it is copied. All ranks must give the same, or the call fails
	 * with SML_ERROR_MISMATCH, whose text has the first 159 bytes of each. A barrier with a
	 * name gives a call to another library a place in this job's order: wait for it first.
	 */
	const char *name;
	/*
	 * Error feedback for SUM and AVG of float32, float16 and bfloat16: NULL, or a float for
	 * each element of send, 0 at first. It is added, and sml_wait() makes it what this rank
	 * has rounded away, unless the call failed; until then, no other call may have it. All
	 * ranks have one, or none: DEFAULT is GRADIENT then, and switches round no int16 sums.
	 */
	float *residual;
};
#define SML_OPTIONS_INIT                                                                           \
	{                                                                                          \
		sizeof(struct sml_options), SML_WIRE_DEFAULT, 0, NULL, NULL                        \
	}

/*
 * The collectives. options may be NULL, and count, in elements, may be 0. If request is NULL, the
 * function waits for the end of the call. Else it only begins it, and sets *request, for
 * sml_wait(): until the call has ended, do not write its buffers, nor read the receive buffer. Many
 * may be in flight. If beginning fails, *request is not set. Only calls that copy take buffers that
 * are not aligned as their type. Beginning waits in one case, for the timeout at most: a rank's
 * first sum of floats, while its job looks for another switch, which may add only integers.
 *
 * Errors of the calls: -EINVAL (a wrong argument, which the text names), SML_ERROR_MISMATCH
 * (another rank made a different call), SML_ERROR_RANK_DIED, SML_ERROR_SWITCH_DIED,
 * SML_ERROR_TIMEOUT, SML_ERROR_ABORTED, SML_ERROR_CLOSED, SML_ERROR_FORKED, -ENOMEM.
 */

/*
 * Combine all ranks' elements, one by one. Every rank gets the same bits. send may equal recv, but
 * must not overlap it otherwise.
 */
SML_API int sml_allreduce(struct sml_context *context, const void *send, void *recv, size_t count,
			  enum sml_type type, enum sml_op op, const struct sml_options *options,
			  struct sml_request **request);

/*
 * Combine as sml_allreduce(), but only root gets the result. Elsewhere, recv may be NULL. It takes
 * as long as an all-reduce, whose packets every rank receives in case the switch dies.
 */
SML_API int sml_reduce(struct sml_context *context, const void *send, void *recv, size_t count,
		       enum sml_type type, enum sml_op op, int root,
		       const struct sml_options *options, struct sml_request **request);

/* Copy root's elements to all ranks: data is read on root, and written on every other rank. */
SML_API int sml_broadcast(struct sml_context *context, void *data, size_t count, enum sml_type type,
			  int root, const struct sml_options *options,
			  struct sml_request **request);

/*
 * Copy rank r's send to recv + r x count elements, on all ranks. recv has world_size x count
 * elements. In place, rank r's send is that part of its recv. Other overlaps are -EINVAL.
 */
SML_API int sml_allgather(struct sml_context *context, const void *send, void *recv, size_t count,
			  enum sml_type type, const struct sml_options *options,
			  struct sml_request **request);

/*
 * Combine world_size x count elements: rank r gets part r, of count elements. In place, its recv is
 * part r of its send, and the rest of send stays as it is. Other overlaps are -EINVAL.
 */
SML_API int sml_reduce_scatter(struct sml_context *context, const void *send, void *recv,
			       size_t count, enum sml_type type, enum sml_op op,
			       const struct sml_options *options, struct sml_request **request);

/* End when all ranks have made this call. */
SML_API int sml_barrier(struct sml_context *context, const struct sml_options *options,
			struct sml_request **request);

/*
 * Wait until calls have ended: all n of them, or one if index is not NULL. All requests belong to
 * one context. A request whose call has ended is freed and becomes NULL; NULLs are ignored. *index
 * becomes that request's index, or n if none has ended. Two threads must not wait for one request.
 *
 * timeout_ms: 0 only looks; a negative number is the context's timeout, after which calls fail.
 * Returns 0, an error of the calls that have ended, or -EAGAIN if the time has passed: calls that
 * are not NULL go on, with their buffers, and other ranks notice nothing.
 */
SML_API int sml_wait(struct sml_request **requests, size_t n, int timeout_ms, size_t *index);

/*
 * A descriptor for poll() or an event loop: readable when calls may have ended. It is an eventfd,
 * always the same, which sml_close() closes. When it is readable (also at first, and from time to
 * time while calls are in progress), read its 8 bytes and then look with sml_wait(): in this
 * order, no end of a call is missed. Never write to it. Returns it, or a negative number.
 */
SML_API int sml_event_fd(struct sml_context *context);

/*
 * End the job for every rank: pending and later calls fail with SML_ERROR_ABORTED and this reason
 * (copied). Any thread may call it. Another thread's sml_reconfigure() ends on this rank alone.
 */
SML_API int sml_abort(struct sml_context *context, const char *reason);

/*
 * Change the context's timeout for later calls, in milliseconds: short while all ranks start, long
 * for the first checkpoint. Ranks need not agree. Any thread may call it. Returns 0 or -EINVAL.
 */
SML_API int sml_set_timeout(struct sml_context *context, int timeout_ms);

/*
 * A sentence about the last error: the context's, or with NULL this thread's of sml_config_init(),
 * sml_open() or sml_reconfigure(). It is never NULL, and valid until this thread's next call of it.
 */
SML_API const char *sml_error_text(const struct sml_context *context);

/* The short text of an error number, SwitchML's or errno's. It is never NULL, and is not freed. */
SML_API const char *sml_strerror(int error);

/* The version of the library that runs: "0.1.0", or a number as SML_VERSION_NUMBER. */
SML_API const char *sml_version(void);
SML_API int sml_version_number(void);

/* What has happened since sml_open(), in all memberships. Shared memory counts only tensors. */
struct sml_counters {
	size_t size; /* sizeof(struct sml_counters) */
	uint64_t packets_sent, packets_received;
	uint64_t bytes_sent, bytes_received; /* UDP payload */
	uint64_t retransmits_timeout;	     /* after a timeout, or as a probe of a call's tail */
	uint64_t retransmits_fast;	     /* because later packets were answered first */
	uint64_t packets_ignored;	     /* stale, duplicate or not ours */
	uint64_t rtt_ns, rtt_min_ns;	     /* round-trip time: smoothed, and the least */
	uint64_t window;		     /* packets allowed in flight now */
	uint64_t stalls;		     /* times that nothing arrived for a whole timeout */
	uint64_t tensors;		     /* collectives completed */
	uint64_t send_blocked;		     /* times that the socket was full */
};
#define SML_COUNTERS_INIT                                                                          \
	{                                                                                          \
		sizeof(struct sml_counters), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                 \
	}

/*
 * Copy the counters of a stripe in this membership: of stripe -1, all. If name is not NULL, *name
 * becomes the address of the stripe's switch (of all, NULL), valid until sml_close() or
 * sml_reconfigure(). Fails with SML_ERROR_CLOSED while another thread is in sml_reconfigure().
 */
SML_API int sml_get_counters(const struct sml_context *context, int stripe,
			     struct sml_counters *counters, const char **name);

/*
 * For bindings: count calls that went to another library instead, such as "Gloo" (where, copied, 31
 * bytes). The line at the job's end has them. Any thread may call it. A NULL context is ignored.
 */
SML_API void sml_count_elsewhere(struct sml_context *context, const char *where, uint64_t calls);

#ifdef __cplusplus
}
#endif

#endif
