/* SPDX-License-Identifier: BSD-3-Clause */
/* Socket addresses, and the text forms of a host and its port. */
#ifndef SML_NET_ADDRESS_H
#define SML_NET_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

union sml_sockaddr {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

struct sml_host_port {
	char host[256]; /* without brackets; "" when the text names none */
	bool has_port;
	uint16_t port; /* 0 without a port */
};

/*
 * "HOST", "HOST:PORT", "[V6]", "[V6]:PORT", "V6", ":PORT" or "", of this length. False if it
 * is none of these, or if a host or port is too long.
 */
bool sml_host_port_parse(const char *text, size_t length, struct sml_host_port *parsed);

/* The reverse: "HOST:PORT", or "[V6]:PORT". Cut off if it does not fit into bytes. */
void sml_host_port_text(char *text, size_t bytes, const char *host, unsigned port);

/* Whether it is a loopback address. */
bool sml_is_loopback_name(const char *host);

socklen_t sml_sockaddr_length(const union sml_sockaddr *address);
void sml_sockaddr_set_port(union sml_sockaddr *address, uint16_t port);

/* Map an IPv4 address into IPv6, as a dual-stack socket uses it. */
void sml_sockaddr_map(union sml_sockaddr *address);

/* Its bytes, 4 or 16 of them; a mapped IPv4 address counts as IPv4. *n is 0: neither family. */
const uint8_t *sml_sockaddr_bytes(const union sml_sockaddr *address, uint8_t *n);

/* "10.0.0.3" or "fe80::1", without the port. text has INET6_ADDRSTRLEN bytes. */
const char *sml_sockaddr_text(const union sml_sockaddr *address, char *text);

/* 127.0.0.0/8, even if mapped into IPv6, or ::1. */
bool sml_sockaddr_is_loopback(const union sml_sockaddr *address);

/* What to do about -errno of a bind(): about an address or a port, or else `in_use`. */
const char *sml_bind_fix(int error, const char *in_use);

#endif
