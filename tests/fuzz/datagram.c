/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz/datagram.h"

#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>

#include "fuzz/properties.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

static uint32_t draw_length(struct gen *gen, uint32_t honest)
{
	static const uint32_t edges[] = {0,
					 SML_HEADER_BYTES - 1,
					 SML_HEADER_BYTES,
					 SML_HEADER_BYTES + 4,
					 SML_MAX_PACKET_BYTES,
					 SML_MAX_PACKET_BYTES + 4,
					 SML_SUPER_PACKET_BYTES,
					 DATAGRAM_BYTES};

	if (gen_below(gen, 32) != 31)
		return honest;
	return edges[gen_below(gen, sizeof(edges) / sizeof(edges[0]))];
}

void datagram_add(struct datagram *datagram, struct gen *gen, const struct sml_header *header,
		  uint16_t lanes)
{
	uint8_t omitted = header->lane_kind & SML_LANES_OMITTED;
	uint32_t length = draw_length(gen, SML_HEADER_BYTES + sml_lane_bytes(lanes, omitted));
	struct sml_header copy = *header;
	uint8_t *bytes = (uint8_t *)&copy, *place = datagram->bytes + datagram->n;

	if (length > DATAGRAM_BYTES - datagram->n)
		return;
	copy.magic_be = sml_be16(SML_WIRE_MAGIC);
	copy.version = SML_WIRE_VERSION;
	copy.lanes_be = sml_be16(lanes);
	if (gen_below(gen, 16) == 15)
		bytes[gen_below(gen, SML_HEADER_BYTES)] = (uint8_t)gen_below(gen, 256);
	memset(place, (int)gen_below(gen, 256), length);
	memcpy(place, &copy, length < sizeof(copy) ? length : sizeof(copy));
	if (datagram->n > 0 && datagram->segment == 0)
		datagram->segment = datagram->n;
	datagram->n += length;
}

void datagram_send(struct datagram *datagram, int fd, const struct sockaddr_in *to)
{
	int segment = (int)datagram->segment;

	(void)setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment));
	(void)sendto(fd, datagram->bytes, datagram->n, MSG_DONTWAIT | MSG_NOSIGNAL,
		     (const struct sockaddr *)to, to ? sizeof(*to) : 0);
	datagram->n = datagram->segment = 0;
}

bool datagram_take(int fd, struct sml_header *header, struct sockaddr_in *from)
{
	static uint8_t bytes[DATAGRAM_BYTES];
	ssize_t n;

	do {
		socklen_t length = sizeof(*from);

		n = recvfrom(fd, bytes, sizeof(bytes), MSG_DONTWAIT, (struct sockaddr *)from,
			     &length);
		/* An earlier packet reached a closed port, and the socket reports that once. */
		if (n < 0 && errno != EINTR && errno != ECONNREFUSED)
			return false;
	} while (n < SML_HEADER_BYTES);
	memcpy(header, bytes, sizeof(*header));
	return true;
}
