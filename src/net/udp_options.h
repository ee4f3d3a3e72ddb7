/* SPDX-License-Identifier: BSD-3-Clause */
/* The options that ranks and the switch set on their UDP sockets, and on each message. */
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
 * Buffers of this many bytes, or as many as the system's limit allows; exceeding it needs
 * CAP_NET_ADMIN. Returns the size as the kernel counts it, including headers and slack; 0 if
 * unknown.
 */
uint32_t sml_udp_widen_in(int fd, int bytes);
uint32_t sml_udp_widen_out(int fd, int bytes);

/* Packets arrive coalesced from now on. False if the kernel cannot do that. */
bool sml_udp_enable_gro(int fd);

/* Whether the kernel can send one message as several packets. */
bool sml_udp_can_segment(int fd);

/*
 * Never fragment, and ignore the path MTU that the kernel has learned: the probes have found out
 * what the path carries, and one lost fragment loses a packet. A forged "too big" message cannot
 * narrow a path either. Also applies to IPv4 on a dual-stack socket.
 */
void sml_udp_forbid_fragments(int fd, bool v6);

/* A control message of CMSG_SPACE(bytes), for the kernel, written to `to`. */
void sml_udp_write_control(char *to, int level, int type, const void *data, size_t bytes);

/* The length of a message's packets, except the last: a control message, written to `to`. */
#define SML_UDP_SEGMENT_SPACE CMSG_SPACE(sizeof(uint16_t))
void sml_udp_write_segment(char *to, uint16_t segment_bytes);

#endif
