/* SPDX-License-Identifier: BSD-3-Clause */
/* One property (-DPROPERTY=property_…) driven by a fuzzer's bytes. */
#include <stdio.h>
#include <stdlib.h>

#include "fuzz/properties.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	static struct gen gen;
	const char *wrong;

	gen_from_bytes(&gen, bytes, n_bytes);
	wrong = PROPERTY(&gen, false);
	if (wrong != NULL) {
		fprintf(stderr, "a property does not hold: %s\n", wrong);
		abort();
	}
	return 0;
}
