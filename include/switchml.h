/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * switchml.h - all-reduce summed inside the network: the public interface.
 *
 * A *job* is a fixed group of `world_size` processes, its *ranks*. Each rank
 * opens a context, calls the same collectives in the same order, and closes it.
 * The sums are made by a switch: a `switchml switch` daemon somewhere on the
 * network, several of them, or a part of it in each rank's own process.
 *
 *	struct sml_context *job;
 *	if (sml_open(&job, NULL) < 0)
 *		errx(1, "%s", sml_error_text(NULL));
 *	sml_allreduce(job, gradient, gradient, n, SML_FLOAT32, SML_AVG, NULL);
 *	sml_close(job);
 *
 * Errors. Every call that can fail returns 0 or a negative number: -1 to -4095
 * is a negated errno, anything below is one of enum sml_error. The sentence
 * that says what happened and what to do is sml_error_text()'s. After a
 * collective has failed, the contents of its receive buffer are undefined and
 * every later call on that context fails with the same error: close it, and
 * open another to form the job again.
 *
 * Time. No call waits longer than the context's timeout (struct sml_config).
 *
 * Threads. A context may be used by several threads; collectives are then
 * ordered by the order of the calls, which must be the same on all ranks.
 * sml_open() and sml_close() of one context must not overlap other calls on it.
 *
 * Fork. A child made by fork() must not use its parent's contexts, save to
 * leave them alone: every call on one fails with SML_ERROR_FORKED. It may open
 * its own.
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

/* The most ranks that one job can have. */
#define SML_MAX_WORLD_SIZE 64

#ifndef SML_API
#if defined(__GNUC__)
#define SML_API __attribute__((visibility("default")))
#else
#define SML_API
#endif
#endif

/*
 * Every error of ours, its name and its short text. sml_strerror() returns
 * the text; docs/errors.md is checked against this list.
 */
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

/* What an element of a tensor is. Numbers are on the wire: never renumber. */
enum sml_type {
	SML_FLOAT32 = 0,
	SML_FLOAT16 = 1,  /* IEEE 754 binary16, as uint16_t in memory */
	SML_BFLOAT16 = 2, /* upper half of a float32, as uint16_t in memory */
	SML_INT32 = 3,
	SML_BYTE = 4 /* moved, never summed: broadcast and all-gather only */
};

/*
 * How elements are combined. SUM of int32 wraps around; AVG of int32 is the
 * (wrapped) sum divided by the number of ranks, rounded towards zero. MAX and
 * MIN are exact for every type; a NaN anywhere makes that element NaN.
 */
enum sml_op { SML_SUM = 0, SML_AVG = 1, SML_MAX = 2, SML_MIN = 3 };

/*
 * What a floating-point element becomes on the wire: a share of a 32-bit lane.
 * int32 is as accurate as float32 sums; int16 halves the bytes. The bounds
 * are derived in docs/numbers.md. Integers always travel whole.
 */
enum sml_wire { SML_WIRE_DEFAULT = 0, SML_WIRE_INT32 = 1, SML_WIRE_INT16 = 2 };

/*
 * What moves packets to and from a switch: UDP sockets, or AF_XDP sockets that pass by
 * the kernel's network stack and need privileges (docs/xdp.md).
 */
enum sml_transport_kind {
	SML_TRANSPORT_DEFAULT = 0,
	SML_TRANSPORT_UDP = 1,
	SML_TRANSPORT_AFXDP = 2
};

struct sml_context;
struct sml_request;

/*
 * Settings of a context. Fill it by sml_config_init() (the defaults, then what
 * the environment says), change what you want, and hand it to sml_open().
 * Strings are copied by sml_open(); those that sml_config_init() set belong to
 * the environment and must not be freed.
 *
 * Environment, strongest first: SWITCHML_RANK, SWITCHML_WORLD_SIZE,
 * SWITCHML_JOB, SWITCHML_SWITCH, …; then torchrun's RANK, WORLD_SIZE,
 * MASTER_ADDR, MASTER_PORT; then Open MPI's, MPICH's (PMI) and Slurm's names.
 */
struct sml_config {
	size_t size; /* sizeof(struct sml_config), set by sml_config_init() */

	/*
	 * Where the switch is: "host[:port]". A comma stripes the job over
	 * several, "a,b"; a bar names others to fail over to, "a,b|c,d", in
	 * order. NULL or "": each rank has a part of it in its own process,
	 * on one host the first ranks; "embedded": each on one host, too.
	 * SWITCHML_SWITCH.
	 */
	const char *switch_address;
	const char *job; /* name that all ranks share; SWITCHML_JOB, "default" */
	int rank;	 /* 0 … world_size - 1; SWITCHML_RANK */
	int world_size;	 /* 1 … SML_MAX_WORLD_SIZE; SWITCHML_WORLD_SIZE */

	/* Where ranks without a switch meet: rank 0. SWITCHML_MASTER_ADDR and _PORT. */
	const char *master_address; /* 127.0.0.1 */
	int master_port;	    /* 0: 28500, or launcher's MASTER_PORT + 1 */

	int timeout_ms;	       /* of every call; SWITCHML_TIMEOUT (seconds), 300 s */
	int heartbeat_ms;      /* silent peers are dead after it; SWITCHML_HEARTBEAT
				  (seconds), 5 s */
	enum sml_wire wire;    /* SWITCHML_WIRE=int32|int16, int32 */
	int slots;	       /* data slots wanted; SWITCHML_SLOTS, 0: the switch chooses */
	int threads;	       /* progress threads; SWITCHML_THREADS, by cores */
	int mtu;	       /* 0: the path's; SWITCHML_MTU, bytes */
	const char *interface; /* SWITCHML_SOCKET_IFNAME: "eth0,ib", "^lo,docker",
				NULL: by the route to the switch */
	int debug;	       /* 0 errors, 1 warnings, 2 what was chosen, 3 all;
				  SWITCHML_DEBUG=error|warn|info|trace */
	int spin;	       /* 1: busy-wait for latency; SWITCHML_SPIN */
	/*
	 * Faults that this rank makes on its own packets, for tests, each in
	 * packets of a million: SWITCHML_FAULTS="drop=10000,duplicate=1000,
	 * reorder=1000,seed=7". And what it leaves out, to measure what that buys:
	 * "tickets=0" (all ranks alike), "fastretransmit=0".
	 */
	const char *faults;
	/*
	 * A file that gets what every slot was waiting for when the job fails; "%r"
	 * in it is the rank. SWITCHML_FLIGHT_RECORDER, NULL: the log alone.
	 */
	const char *flight_recorder;

	/*
	 * Control messages over TLS 1.3 (docs/security.md): files of PEM with this
	 * rank's certificate, its key, and the authority that all certificates are
	 * of. All three or none. SWITCHML_TLS_CERTIFICATE, _KEY and _AUTHORITY.
	 */
	const char *tls_certificate, *tls_key, *tls_authority;
	enum sml_transport_kind transport; /* SWITCHML_TRANSPORT=udp|afxdp, udp */
};

/*
 * Set every member of config to its default and then to what the environment
 * says. Returns 0, or SML_ERROR_CONFIG when a variable cannot be understood;
 * sml_error_text(NULL) names it.
 */
SML_API int sml_config_init(struct sml_config *config);

/*
 * Join a job and wait until all of its ranks have. config may be NULL: then
 * what sml_config_init() gives is used. On success *context is ours until
 * sml_close(). On failure *context is NULL and sml_error_text(NULL) says why.
 */
SML_API int sml_open(struct sml_context **context, const struct sml_config *config);

/*
 * Leave the job and free the context, also after an error. Waits (within the
 * timeout) until every rank has asked to leave, so that none is cut off in
 * the middle of a call. Requests that were not waited for are freed. Returns
 * what leaving returned; the context is gone in any case. NULL is allowed.
 */
SML_API int sml_close(struct sml_context *context);

SML_API int sml_rank(const struct sml_context *context);
SML_API int sml_world_size(const struct sml_context *context);

/* Bytes of one element of a type; 0 if there is no such type. */
SML_API size_t sml_type_size(enum sml_type type);

/* How one call departs from the context's settings. Zero-fill it first. */
struct sml_options {
	enum sml_wire wire; /* SML_WIRE_DEFAULT: the context's */
};

/*
 * Combine count elements of all ranks, element by element; every rank gets the
 * same bits. send may equal recv (in place) but must not overlap it otherwise.
 * options may be NULL. count may be 0.
 *
 * Errors: -EINVAL (an argument of the call; text names it), SML_ERROR_MISMATCH
 * (another rank made a different call), SML_ERROR_RANK_DIED,
 * SML_ERROR_SWITCH_DIED, SML_ERROR_TIMEOUT, SML_ERROR_ABORTED, -ENOMEM.
 */
SML_API int sml_allreduce(struct sml_context *context, const void *send, void *recv, size_t count,
			  enum sml_type type, enum sml_op op, const struct sml_options *options);

/* Root's count elements of data come to be those of every rank. */
SML_API int sml_broadcast(struct sml_context *context, void *data, size_t count, enum sml_type type,
			  int root);

/* recv gets world_size x count elements: rank r's send at r x count. */
SML_API int sml_allgather(struct sml_context *context, const void *send, void *recv, size_t count,
			  enum sml_type type);

/* send has world_size x count elements; rank r gets their r-th part, combined. */
SML_API int sml_reduce_scatter(struct sml_context *context, const void *send, void *recv,
			       size_t count, enum sml_type type, enum sml_op op,
			       const struct sml_options *options);

/* Returns when all ranks have called it. */
SML_API int sml_barrier(struct sml_context *context);

/*
 * The same, begun and not waited for. *request must be given to sml_wait()
 * once, or to sml_test() until it says done; either frees it. The buffers
 * must stay untouched until then. Many may be in flight.
 */
SML_API int sml_allreduce_async(struct sml_context *context, const void *send, void *recv,
				size_t count, enum sml_type type, enum sml_op op,
				const struct sml_options *options, struct sml_request **request);
SML_API int sml_broadcast_async(struct sml_context *context, void *data, size_t count,
				enum sml_type type, int root, struct sml_request **request);
SML_API int sml_allgather_async(struct sml_context *context, const void *send, void *recv,
				size_t count, enum sml_type type, struct sml_request **request);
SML_API int sml_reduce_scatter_async(struct sml_context *context, const void *send, void *recv,
				     size_t count, enum sml_type type, enum sml_op op,
				     const struct sml_options *options,
				     struct sml_request **request);
SML_API int sml_barrier_async(struct sml_context *context, struct sml_request **request);

/* Wait for a request, free it, and return what the call came to. */
SML_API int sml_wait(struct sml_request *request);

/*
 * Look without waiting. *done becomes 0, or 1 when the call has ended: then
 * the request has been freed and the return value is what it came to.
 */
SML_API int sml_test(struct sml_request *request, int *done);

/*
 * End the job for every rank: their pending and later calls fail with
 * SML_ERROR_ABORTED and this reason. May be called from any thread.
 */
SML_API int sml_abort(struct sml_context *context, const char *reason);

/*
 * The sentence about the last error: of this context, or, with NULL, of the
 * calling thread's last failed sml_config_init() or sml_open(). Never NULL.
 * Valid until the calling thread asks again.
 */
SML_API const char *sml_error_text(const struct sml_context *context);

/* The short text of an error number, ours or errno's. Never NULL. */
SML_API const char *sml_strerror(int error);

/* What has happened since sml_open(). Times in nanoseconds. */
struct sml_counters {
	size_t size; /* sizeof(struct sml_counters), set by the caller */
	uint64_t packets_sent, packets_received;
	uint64_t bytes_sent, bytes_received; /* UDP payload */
	uint64_t retransmits_timeout;	     /* the timer ran out */
	uint64_t retransmits_fast;	     /* later packets were answered first */
	uint64_t packets_ignored;	     /* stale, duplicate or not ours */
	uint64_t rtt_ns;		     /* smoothed round-trip time */
	uint64_t rtt_min_ns;
	uint64_t window;       /* packets allowed in flight now */
	uint64_t stalls;       /* times that nothing came for a timeout */
	uint64_t tensors;      /* collectives completed */
	uint64_t send_blocked; /* times that the socket was full */
};
SML_API int sml_get_counters(const struct sml_context *context, struct sml_counters *counters);

/* How many stripes the job has: switches that each serve every so many-th chunk. */
SML_API int sml_stripe_count(const struct sml_context *context);

/*
 * The same of one stripe alone, 0 to sml_stripe_count() - 1, and, unless name is
 * NULL, where its switch is: a text that lives as long as the context. A slow or
 * lossy stripe is one whose numbers stand out.
 */
SML_API int sml_get_stripe_counters(const struct sml_context *context, int stripe,
				    struct sml_counters *counters, const char **name);

#ifdef __cplusplus
}
#endif

#endif
