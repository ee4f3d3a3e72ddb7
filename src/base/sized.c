/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/sized.h"

#include <string.h>

#include "base/error.h"
#include "switchml.h"

/* The largest structure of any future version; more means that the size was never set. */
#define BYTES_MAX 4096

static int check(const struct sml_sized *kind, const void *given, size_t *size)
{
	*size = 0;
	if (given != NULL)
		memcpy(size, given, sizeof(*size));
	if (*size >= sizeof(*size) && *size <= BYTES_MAX)
		return 0;
	return sml_error_set(kind->error, "%s is NULL, or its size, %zu, is wrong: %s", kind->name,
			     *size, kind->begins);
}

int sml_sized_read(const struct sml_sized *kind, void *own, const void *given)
{
	const unsigned char *bytes = given;
	size_t size;
	int error = check(kind, given, &size);

	if (error)
		return error;
	for (size_t i = kind->bytes; i < size; i++)
		if (bytes[i] != 0)
			return sml_error_set(kind->error,
					     "%s (%zu bytes) sets something that this library, "
					     "version " SML_VERSION_STRING
					     ", does not know: the program needs a newer library",
					     kind->name, size);
	memcpy(own, given, size < kind->bytes ? size : kind->bytes);
	memcpy(own, &kind->bytes, sizeof(kind->bytes));
	return 0;
}

int sml_sized_write(const struct sml_sized *kind, void *given, const void *own)
{
	size_t size, known;
	int error = check(kind, given, &size);

	if (error)
		return error;
	known = size < kind->bytes ? size : kind->bytes;
	memcpy((char *)given + sizeof(size), (const char *)own + sizeof(size),
	       known - sizeof(size));
	memset((char *)given + known, 0, size - known);
	return 0;
}
