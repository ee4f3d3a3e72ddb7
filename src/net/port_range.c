/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/port_range.h"

#include <errno.h>
#include <string.h>

#include "base/word.h"

bool sml_port_range_parse(const char *text, struct sml_port_range *range)
{
	const char *dash = strchr(text, '-');
	char digits[8] = "";
	long first, last;

	if (dash == NULL || dash - text >= (long)sizeof(digits) || strlen(dash) > sizeof(digits))
		return false;
	memcpy(digits, text, (size_t)(dash - text));
	if (!sml_parse_number(digits, 1, 65535, &first) ||
	    !sml_parse_number(dash + 1, first, 65535, &last))
		return false;
	*range = (struct sml_port_range){(uint16_t)first, (uint16_t)last};
	return true;
}

static int bind_to(const union sml_sockaddr *address, int fd)
{
	return bind(fd, &address->any, sml_sockaddr_length(address)) < 0 ? -errno : 0;
}

int sml_port_range_bind(const struct sml_port_range *range, const union sml_sockaddr *address,
			int fd)
{
	union sml_sockaddr at = *address;
	int error = -EADDRINUSE;

	if (!sml_port_range_is_set(range))
		return bind_to(address, fd);
	for (uint32_t port = range->first; error == -EADDRINUSE && port <= range->last; port++) {
		sml_sockaddr_set_port(&at, (uint16_t)port);
		error = bind_to(&at, fd);
	}
	return error;
}
