/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/release.h"

#include "commit.h"
#include "control/envelope.h"
#include "switchml.h"

#define TEXT_OF(number) TEXT(number)
#define TEXT(number)	#number

const char *sml_release_text(void)
{
	return SML_VERSION_STRING
		" (control protocol " TEXT_OF(SML_CONTROL_PROTOCOL) ", commit " SML_COMMIT ")";
}
