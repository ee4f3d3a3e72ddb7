/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface between libswitchml and the module with the AF_XDP transport. libswitchml
 * loads the module only if the user asks for this transport, so the library itself needs
 * neither libxdp nor libbpf. Both must come from the same build: the versions are compared.
 */
#ifndef SML_LIB_AFXDP_MODULE_H
#define SML_LIB_AFXDP_MODULE_H

#include "lib/transport/transport.h"

#define SML_AFXDP_MODULE "libswitchml-afxdp.so"
#define SML_AFXDP_ENTRY	 "sml_afxdp_open"
/* This number also covers the layouts of struct sml_transport and of everything it points to. */
#define SML_AFXDP_VERSION "2 " SML_VERSION_STRING

/* What the module needs from the library. */
struct sml_afxdp_services {
	const char *version;
	const struct sml_transport_ops *udp;
	void (*log)(const struct sml_log *log, enum sml_log_level level, const char *format, ...)
		__attribute__((format(printf, 3, 4)));
	int (*error_set)(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
	const char *(*error_last)(void);
};

typedef int (*sml_afxdp_open_fn)(struct sml_transport **opened,
				 const struct sml_transport_config *config,
				 const struct sml_afxdp_services *services);

#endif
