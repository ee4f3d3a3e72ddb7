/* SPDX-License-Identifier: BSD-3-Clause */
/* A shard's beginning and end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/context.h"
#include "lib/thread.h"

int sml_shard_init(struct sml_shard *shard, struct sml_context *context,
		   const struct sml_worker_config *config, struct sml_transport *transport)
{
	shard->context = context;
	shard->index = config->shard;
	shard->transport = transport;
	pthread_mutex_init(&shard->queue_lock, NULL);
	shard->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	/* A multiple of 64, as aligned_alloc() wants it. */
	shard->worker_memory = aligned_alloc(64, (sml_worker_memory_bytes(config) + 63) & ~63ull);
	shard->out.bytes = aligned_alloc(64, SML_BATCH_BYTES);
	if (shard->wake_fd < 0 || !shard->worker_memory || !shard->out.bytes)
		return sml_error_set(-ENOMEM, "no memory or files for a progress thread");
	sml_worker_init(&shard->worker, config, shard->worker_memory);
	return 0;
}

int sml_shard_start(struct sml_shard *shard)
{
	char name[16];
	int error;

	snprintf(name, sizeof(name), "sml-shard%u", shard->index);
	error = sml_thread_start(&shard->thread, name, sml_shard_main, shard);
	if (error)
		return sml_error_set(error, "a progress thread cannot be started: %s",
				     strerrordesc_np(-error));
	shard->started = true;
	return 0;
}

bool sml_shard_renew(struct sml_shard *shard, const struct sml_worker_config *config,
		     const struct sml_ticket_map maps[SML_STREAMS], struct sml_transport *transport,
		     bool keep)
{
	void *memory = aligned_alloc(64, (sml_worker_memory_bytes(config) + 63) & ~63ull);
	struct sml_worker *next = malloc(sizeof(*next));

	if (memory == NULL || next == NULL) {
		free(memory);
		free(next);
		return false;
	}
	sml_worker_init(next, config, memory);
	sml_resume_begin(next, &shard->worker, maps);
	if (keep) {
		free(shard->kept_memory);
		shard->kept = shard->worker;
		shard->kept_memory = shard->worker_memory;
	} else {
		free(shard->worker_memory);
	}
	shard->worker = *next;
	shard->worker_memory = memory;
	free(next);
	shard->transport->ops->close(shard->transport);
	shard->transport = transport;
	sml_batch_clear(&shard->out);
	return true;
}

void sml_shard_fini(struct sml_shard *shard)
{
	if (shard->context == NULL)
		return;
	if (shard->started) {
		sml_shard_wake(shard);
		pthread_join(shard->thread, NULL);
	}
	if (shard->transport)
		shard->transport->ops->close(shard->transport);
	if (shard->wake_fd >= 0)
		close(shard->wake_fd);
	pthread_mutex_destroy(&shard->queue_lock);
	free(shard->worker_memory);
	free(shard->kept_memory);
	free(shard->out.bytes);
}
