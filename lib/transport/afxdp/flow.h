/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ethernet frames of one UDP flow, written and parsed here, without the network stack. This
 * code computes and verifies checksums. It never reads outside a received frame, whatever
 * the frame contains.
 */
#ifndef SML_LIB_AFXDP_FLOW_H
#define SML_LIB_AFXDP_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "net/address.h"

#define SML_MAC_BYTES 6
/* Ethernet, IPv6, UDP. */
#define SML_FLOW_HEADERS_MAX 62

/* The headers of a flow; lengths and checksums are added per packet. */
struct sml_flow_headers {
	uint8_t bytes[SML_FLOW_HEADERS_MAX + 2];
	uint32_t ip, udp, payload; /* where the headers begin */
	uint64_t ip_sum, udp_sum;  /* of the constant part */
	bool v6;
};

/* Both addresses have ports and are of one family. IPv4 mapped into IPv6 is not allowed. */
void sml_flow_headers_init(struct sml_flow_headers *headers, const union sml_sockaddr *from,
			   const union sml_sockaddr *to);

void sml_flow_headers_set_macs(struct sml_flow_headers *headers, const uint8_t from[SML_MAC_BYTES],
			       const uint8_t to[SML_MAC_BYTES]);

/*
 * Write headers and payload of `length` bytes into a frame with enough room. Returns the
 * frame's length.
 */
uint32_t sml_flow_write(const struct sml_flow_headers *headers, uint8_t *frame, const void *payload,
			uint32_t length);

/*
 * Returns the payload and its length if the frame belongs to the reverse direction of the
 * flow. NULL for any other frame, and if a length or checksum is wrong. partial: a checksum
 * may be incomplete, because virtual interfaces leave it to hardware that does not exist.
 */
uint8_t *sml_flow_read(const struct sml_flow_headers *headers, uint8_t *frame, uint32_t bytes,
		       bool partial, uint32_t *length);

#endif
