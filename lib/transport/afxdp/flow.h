/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ethernet frames of one UDP flow, written and parsed here, without the network stack: this code
 * computes and verifies checksums. It never reads outside a received frame, whatever the frame
 * contains.
 */
#ifndef SML_LIB_AFXDP_FLOW_H
#define SML_LIB_AFXDP_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "net/address.h"

#define SML_MAC_BYTES 6
/* Ethernet, IPv6, UDP. */
#define SML_FLOW_HEADERS_MAX 62

/* A flow's headers, lengths and checksums still missing. */
struct sml_flow_headers {
	uint8_t bytes[SML_FLOW_HEADERS_MAX + 2];
	uint32_t ip, udp, payload; /* where they begin */
	uint64_t ip_sum, udp_sum;  /* of what is there */
	bool v6;
};

/* Both addresses have their ports, and are of one family; not IPv4 mapped into IPv6. */
void sml_flow_headers_init(struct sml_flow_headers *headers, const union sml_sockaddr *from,
			   const union sml_sockaddr *to);

void sml_flow_headers_set_macs(struct sml_flow_headers *headers, const uint8_t from[SML_MAC_BYTES],
			       const uint8_t to[SML_MAC_BYTES]);

/* Headers and payload, of length bytes, into a frame that has room. Returns its length. */
uint32_t sml_flow_write(const struct sml_flow_headers *headers, uint8_t *frame, const void *payload,
			uint32_t length);

/*
 * The payload and its length, if the frame belongs to the reverse direction of the flow; NULL for
 * any other frame, and if a length or checksum is wrong. partial: a checksum may have been left to
 * hardware that isn't there, as virtual interfaces do.
 */
uint8_t *sml_flow_read(const struct sml_flow_headers *headers, uint8_t *frame, uint32_t bytes,
		       bool partial, uint32_t *length);

#endif
