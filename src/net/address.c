/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/word.h"

socklen_t sml_sockaddr_length(const union sml_sockaddr *address)
{
	return address->any.sa_family == AF_INET6 ? sizeof(address->v6) : sizeof(address->v4);
}

void sml_sockaddr_set_port(union sml_sockaddr *address, uint16_t port)
{
	if (address->any.sa_family == AF_INET6)
		address->v6.sin6_port = htons(port);
	else
		address->v4.sin_port = htons(port);
}

void sml_sockaddr_map(union sml_sockaddr *address)
{
	const struct sockaddr_in v4 = address->v4;

	if (address->any.sa_family != AF_INET)
		return;
	address->v6 = (struct sockaddr_in6){
		.sin6_family = AF_INET6,
		.sin6_port = v4.sin_port,
		.sin6_addr = {.s6_addr = {[10] = 0xff, [11] = 0xff}},
	};
	memcpy(address->v6.sin6_addr.s6_addr + 12, &v4.sin_addr, sizeof(v4.sin_addr));
}

const uint8_t *sml_sockaddr_bytes(const union sml_sockaddr *address, uint8_t *n)
{
	const uint8_t *v6 = address->v6.sin6_addr.s6_addr;
	bool is_v6 = address->any.sa_family == AF_INET6;
	bool is_mapped = is_v6 && IN6_IS_ADDR_V4MAPPED(&address->v6.sin6_addr);

	*n = is_v6 && !is_mapped ? 16 : is_v6 || address->any.sa_family == AF_INET ? 4 : 0;
	return is_mapped ? v6 + 12 : is_v6 ? v6 : (const uint8_t *)&address->v4.sin_addr;
}

const char *sml_sockaddr_text(const union sml_sockaddr *address, char *text)
{
	uint8_t n;
	const uint8_t *bytes = sml_sockaddr_bytes(address, &n);

	if (!inet_ntop(n == 16 ? AF_INET6 : AF_INET, bytes, text, INET6_ADDRSTRLEN))
		strcpy(text, "?");
	return text;
}

bool sml_is_loopback_name(const char *host)
{
	return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

bool sml_sockaddr_is_loopback(const union sml_sockaddr *address)
{
	char text[INET6_ADDRSTRLEN];

	return sml_is_loopback_name(sml_sockaddr_text(address, text));
}

/* The text after a colon. */
static bool parse_port(const char *text, size_t length, struct sml_host_port *parsed)
{
	char digits[8];
	long port;

	if (length >= sizeof(digits))
		return false;
	memcpy(digits, text, length);
	digits[length] = '\0';
	if (!sml_parse_number(digits, 0, 65535, &port))
		return false;
	parsed->has_port = true;
	parsed->port = (uint16_t)port;
	return true;
}

bool sml_host_port_parse(const char *text, size_t length, struct sml_host_port *parsed)
{
	const char *end = text + length, *host = text, *host_end = end;
	const char *colon = memchr(text, ':', length);

	*parsed = (struct sml_host_port){.port = 0};
	if (length > 0 && *text == '[') {
		host++;
		host_end = memchr(text, ']', length);
		if (host_end == NULL)
			return false;
		colon = host_end + 1 < end ? host_end + 1 : NULL;
		if (colon && *colon != ':')
			return false;
	} else if (colon && memchr(colon + 1, ':', (size_t)(end - colon) - 1)) {
		colon = NULL; /* an IPv6 address without brackets */
	} else if (colon) {
		host_end = colon;
	}
	if ((size_t)(host_end - host) >= sizeof(parsed->host))
		return false;
	memcpy(parsed->host, host, (size_t)(host_end - host));
	return colon == NULL || parse_port(colon + 1, (size_t)(end - colon) - 1, parsed);
}

void sml_host_port_text(char *text, size_t bytes, const char *host, unsigned port)
{
	snprintf(text, bytes, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
}

const char *sml_bind_fix(int error, const char *in_use)
{
	if (error == -EADDRNOTAVAIL)
		return "no interface of this host has that address: `ip address' lists them";
	if (error == -EACCES)
		return "ports below net.ipv4.ip_unprivileged_port_start need CAP_NET_BIND_SERVICE";
	return in_use;
}
