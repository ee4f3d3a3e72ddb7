/* SPDX-License-Identifier: BSD-3-Clause */
/* What ranks and the switch ask of their UDP sockets, and of the kernel for each message. */
#ifndef SML_NET_UDP_OPTIONS_H
#define SML_NET_UDP_OPTIONS_H

#include <netinet/udp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

/*
 * Buffers of so many bytes, or as many as the system's limit allows: more needs
 * CAP_NET_ADMIN. Returns how many there are as the kernel counts, headers and slack
 * included; 0: it does not say.
 */
uint32_t sml_udp_widen_in(int fd, int bytes);
uint32_t sml_udp_widen_out(int fd, int bytes);

/* Packets come in glued together from now on. False: the kernel can't. */
bool sml_udp_glue(int fd);

/* Can a message leave as many packets? */
bool sml_udp_can_segment(int fd);

/*
 * Whole packets or none, as long as the interface takes them: what a path takes, the
 * probes have found out, and one lost fragment loses a packet. Nor does a forged "too
 * big" narrow a path. Of IPv4 also on a socket of both families.
 */
void sml_udp_forbid_fragments(int fd, bool v6);

/* Of a message's packets, but the last: a control message, written to `to`. */
#define SML_UDP_SEGMENT_SPACE CMSG_SPACE(sizeof(uint16_t))
void sml_udp_write_segment(char *to, uint16_t segment_bytes);

#endif
