/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds lanes again from the elements that they were decoded to. A rank that hands a result over
 * needs the lanes, and the buffer of a call has only the elements (worker.h). The recovered lanes
 * may differ from the received ones, but they decode to the same bits on every rank.
 */
#ifndef SML_CORE_RECOVER_H
#define SML_CORE_RECOVER_H

#include "core/coding.h"

/* Can lanes of this coding be recovered from any elements that sml_code_decode() has written? */
static inline bool sml_code_is_recoverable(const struct sml_code *code)
{
	return code->coding == SML_CODE_FLOAT || code->coding == SML_CODE_BYTES ||
	       (code->coding == SML_CODE_INTEGER && code->type == SML_INT32);
}

/*
 * Write lanes that sml_code_decode() with the same arguments converts to exactly these elements.
 * Returns false if there are none, so the elements are not decoded ones. Takes one pass over bytes
 * and raw floats, 34 over other elements, or, where the switch rounds, 34 for each shift up to the
 * right one.
 */
bool sml_code_recover(const struct sml_code *code, const void *shared, uint64_t first,
		      const void *elements, uint32_t count, void *lanes);

#endif
