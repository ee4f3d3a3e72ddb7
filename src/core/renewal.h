/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A NAT has changed a sender's address, so results do not reach it: when the receiver learns the
 * new one. The sender draws a number, sends it to the receiver over the control connection, and
 * sends it in probes, too. The receiver takes the sender's address from the first probe with that
 * number, and the number is used up. So a copy of an older packet changes no address.
 */
#ifndef SML_CORE_RENEWAL_H
#define SML_CORE_RENEWAL_H

#include "core/base.h"

/*
 * Has it been long enough without a result for a new number? n is how many timeouts or checks in a
 * row have found none. True for 1, 2, 4, … and then for every 64th: the cause may also be another
 * rank, which is late.
 */
static inline bool sml_renewal_is_due(uint32_t n)
{
	return n > 0 && ((n & (n - 1)) == 0 || n % 64 == 0);
}

#endif
