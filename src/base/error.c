/* SPDX-License-Identifier: BSD-3-Clause */
/* Error numbers as text, and each thread's last error text. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "switchml.h"

static _Thread_local char last[SML_TEXT_BYTES];
static _Thread_local char handed_out[SML_TEXT_BYTES];

int sml_error_set(int error, const char *format, ...)
{
	char text[SML_TEXT_BYTES];
	va_list arguments;

	/*
	 * Formats into `text` first: an argument may be the last error text
	 * itself.
	 */
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	memcpy(last, text, sizeof(last));
	return error;
}

const char *sml_error_last(void)
{
	return last;
}

char *sml_error_buffer(void)
{
	return handed_out;
}

const char *sml_strerror(int error)
{
	static const struct {
		int number;
		const char *text;
	} ours[] = {
#define SML_ERROR_ROW(number, name, text) {number, text},
		SML_ERROR_LIST(SML_ERROR_ROW)
#undef SML_ERROR_ROW
	};

	if (error == 0)
		return "success";
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (ours[i].number == error)
			return ours[i].text;
	/*
	 * glibc returns constants here, not a buffer that threads would share.
	 */
	if (error < 0 && error >= -4095 && strerrordesc_np(-error))
		return strerrordesc_np(-error);
	return "unknown error";
}
