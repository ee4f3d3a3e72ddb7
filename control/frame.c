/* SPDX-License-Identifier: BSD-3-Clause */
/* Control messages on a byte stream: see frame.h. */
#include "control/frame.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#define LENGTH_BYTES 4

int sml_frame_write(struct evbuffer *out, const SmlControl__Envelope *message)
{
	size_t bytes = sml_control__envelope__get_packed_size(message);
	uint32_t length_be = htonl((uint32_t)bytes);
	struct evbuffer_iovec space;

	if (bytes > SML_CONTROL_MAX_BYTES)
		return -EMSGSIZE;
	if (evbuffer_reserve_space(out, (ev_ssize_t)(LENGTH_BYTES + bytes), &space, 1) < 1)
		return -ENOMEM;
	memcpy(space.iov_base, &length_be, LENGTH_BYTES);
	sml_control__envelope__pack(message, (uint8_t *)space.iov_base + LENGTH_BYTES);
	space.iov_len = LENGTH_BYTES + bytes;
	return evbuffer_commit_space(out, &space, 1) < 0 ? -ENOMEM : 0;
}

size_t sml_frame_bytes(struct evbuffer *in)
{
	uint32_t length_be;

	if (evbuffer_copyout(in, &length_be, LENGTH_BYTES) < LENGTH_BYTES)
		return 0;
	return ntohl(length_be);
}

int sml_frame_read(struct evbuffer *in, SmlControl__Envelope **message)
{
	uint32_t length_be;
	size_t bytes;
	const uint8_t *whole;

	if (evbuffer_copyout(in, &length_be, LENGTH_BYTES) < LENGTH_BYTES)
		return 0;
	bytes = ntohl(length_be);
	if (bytes > SML_CONTROL_MAX_BYTES)
		return -EPROTO;
	if (evbuffer_get_length(in) < LENGTH_BYTES + bytes)
		return 0;
	whole = evbuffer_pullup(in, (ev_ssize_t)(LENGTH_BYTES + bytes));
	if (whole == NULL)
		return -ENOMEM;
	*message = sml_control__envelope__unpack(NULL, bytes, whole + LENGTH_BYTES);
	evbuffer_drain(in, LENGTH_BYTES + bytes);
	/* An unknown body is of a newer peer: Join has refused that already. */
	if (*message != NULL && (*message)->body_case == SML_CONTROL__ENVELOPE__BODY__NOT_SET) {
		sml_control__envelope__free_unpacked(*message, NULL);
		*message = NULL;
	}
	return *message != NULL ? 1 : -EPROTO;
}
