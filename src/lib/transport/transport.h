/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What moves packets between one shard of a worker and its switch, or all ranks
 * of a job that embed one: a table of operations, chosen when the context opens. The rest of the
 * library knows no transport by name. One thread at a time may use a transport.
 *
 * A transport may lose packets, as networks do, and never waits: what it can't
 * take now stays in the batch until its poll_fd says POLLOUT.
 */
#ifndef SML_LIB_TRANSPORT_H
#define SML_LIB_TRANSPORT_H

#include <sys/uio.h>

#include "base/log.h"
#include "core/wire.h"
#include "lib/settings/settings.h"
#include "lib/transport/interface.h"
#include "net/udp_inbox.h"

/* As many as one super-packet can have. */
#define SML_BATCH_PACKETS SML_SUPER_PACKET_PACKETS
#define SML_BATCH_BYTES	  SML_SUPER_PACKET_BYTES

/* Packets on their way out, back to back. [first, n) have not been taken yet. */
struct sml_batch {
	uint8_t *bytes; /* SML_BATCH_BYTES */
	unsigned first, n;
	uint32_t used;
	uint32_t offset[SML_BATCH_PACKETS];
	uint32_t length[SML_BATCH_PACKETS];
	uint8_t peer[SML_BATCH_PACKETS]; /* where to, where a transport has several */
};

static inline bool sml_batch_has_room(const struct sml_batch *batch, uint32_t packet_bytes)
{
	return batch->n < SML_BATCH_PACKETS && batch->used + packet_bytes <= SML_BATCH_BYTES;
}

/* The place for the next packet. */
static inline uint8_t *sml_batch_next(struct sml_batch *batch)
{
	return batch->bytes + batch->used;
}

static inline void sml_batch_add(struct sml_batch *batch, uint32_t length, uint8_t peer)
{
	batch->offset[batch->n] = batch->used;
	batch->peer[batch->n] = peer;
	batch->length[batch->n++] = length;
	batch->used += length;
}

static inline void sml_batch_clear(struct sml_batch *batch)
{
	batch->first = batch->n = batch->used = 0;
}

/* The most that one call of send_results takes. */
#define SML_RESULTS_AT_ONCE 128

struct sml_transport_config {
	const struct sml_interface *interface;
	struct sml_port_range ports; /* for its own port; an open fails with -EADDRINUSE if all are
					taken */
	union sml_sockaddr peer;     /* with the data port */
	/*
	 * NULL if it talks to `peer` alone. Else to any of SML_MAX_CHILDREN, of peer's family
	 * (IPv6: IPv4 addresses mapped); filled in before the first packet, and alive as long as it
	 * is. See readdress.
	 */
	const union sml_sockaddr *peers;
	uint8_t own; /* then: its own place among them */
	const struct sml_log *log;
	bool single_packets; /* the switch takes none that are yet to be cut up */
};

struct sml_transport;

struct sml_transport_ops {
	const char *name;
	/* Returns 0 or a negative error, and sets the error text. */
	int (*open)(struct sml_transport **opened, const struct sml_transport_config *config);
	/*
	 * Sends packets from the front of batch, as many as the transport takes now. Returns how
	 * many.
	 */
	unsigned (*send)(struct sml_transport *transport, struct sml_batch *batch);
	/*
	 * Results of slots in this process, each to all peers whose bit is set. Packets that do not
	 * fit are dropped: a rank that misses one asks for it again. At most SML_RESULTS_AT_ONCE.
	 * Only where there are peers.
	 */
	void (*send_results)(struct sml_transport *transport, const struct iovec *packets,
			     unsigned n, uint64_t peers);
	/* Returns how many came, at most SML_RECEIVE_PACKETS. */
	unsigned (*receive)(struct sml_transport *transport, struct sml_packet *packets);
	/* The peers' table has changed, and with it this one's own place. Only where there are
	 * peers. */
	void (*readdress)(struct sml_transport *transport, uint8_t own);
	void (*close)(struct sml_transport *transport);
};

/* Each transport begins with it. */
struct sml_transport {
	const struct sml_transport_ops *ops;
	int poll_fd;		/* POLLIN: something came; POLLOUT: room to send */
	bool drained;		/* the last receive left nothing behind */
	uint32_t receive_bytes; /* that it can hold until they are asked for */
	uint16_t port;		/* its own, and its family, where it has several peers */
	sa_family_t family;
	char features[96]; /* for the log: what makes it fast, or not */
};

extern const struct sml_transport_ops sml_transport_udp;

/*
 * A transport that drops, duplicates and reorders what goes through `inner`, both ways, for tests.
 * Owns inner from then on. NULL if there is no memory, and inner is still the caller's.
 */
struct sml_transport *sml_faults_wrap(struct sml_transport *inner, const struct sml_faults *faults,
				      uint64_t salt);

#endif
