/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Between libswitchml and the module with the AF_XDP transport, which is loaded only
 * when that is asked for: so the library itself needs neither libxdp nor libbpf. Both
 * are of one build: the version is compared.
 */
#ifndef SML_LIB_AFXDP_MODULE_H
#define SML_LIB_AFXDP_MODULE_H

#include "lib/transport/transport.h"

#define SML_AFXDP_MODULE "libswitchml-afxdp.so"
#define SML_AFXDP_ENTRY	 "sml_afxdp_open"
/* Also the layouts of struct sml_transport and what is reachable by it. */
#define SML_AFXDP_VERSION "1 " SML_VERSION_STRING

/* What the module needs of the library. */
struct sml_afxdp_services {
	const char *version;
	const struct sml_transport_ops *udp;
	void (*log)(const struct sml_log *log, enum sml_log_level level, const char *format, ...)
		__attribute__((format(printf, 3, 4)));
	int (*error_set)(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
};

typedef int (*sml_afxdp_open_fn)(struct sml_transport **opened,
				 const struct sml_transport_config *config,
				 const struct sml_afxdp_services *services);

#endif
