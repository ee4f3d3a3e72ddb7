/* SPDX-License-Identifier: BSD-3-Clause */
/* What an interface can do with XDP, according to the kernel (Linux 6.3 and later). */
#ifndef SML_SWITCH_XDP_FEATURES_H
#define SML_SWITCH_XDP_FEATURES_H

#include <stdint.h>

/* enum netdev_xdp_act of linux/netdev.h, which older systems' headers lack. */
#define SML_XDP_FEATURE_REDIRECT (1u << 1)
#define SML_XDP_FEATURE_NDO_XMIT (1u << 2) /* others can redirect to it now */

/* Returns 0, or a negative errno if it is not known. */
int sml_xdp_features(int ifindex, uint64_t *features);

#endif
