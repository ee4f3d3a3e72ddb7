/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for calls. A wait ends with the first of: a request is done, the context has failed (and
 * no thread accesses a buffer any more), the waiter's own time is over (the calls go on), or a
 * request's deadline, which fails the context.
 */
#ifndef SML_LIB_WAIT_H
#define SML_LIB_WAIT_H

#include <stddef.h>
#include <stdint.h>

struct sml_context;
struct sml_request;

#define SML_WAIT_FOREVER UINT64_MAX

/*
 * Wait until one of n requests is done, at most until until_ns. Some may be NULL, but not all.
 * Returns 0 and the first one that is done as *index; or the context's error and any of them; then
 * the application owns its buffers again. -EAGAIN: until_ns has passed.
 */
int sml_context_wait_any(struct sml_context *context, struct sml_request *const *requests, size_t n,
			 uint64_t until_ns, size_t *index);

/* The same without waiting. */
int sml_context_look(struct sml_context *context, struct sml_request *const *requests, size_t n,
		     size_t *index);

#endif
