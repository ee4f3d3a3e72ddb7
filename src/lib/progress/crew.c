/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/progress/crew.h"

#include <stdlib.h>

#include "base/thread.h"
#include "lib/control/stall_report.h"
#include "lib/host/slots.h"
#include "lib/progress/progress.h"

void sml_crew_init(struct sml_crew *crew, struct sml_requests *requests,
		   const struct sml_crew_owner *owner)
{
	crew->requests = requests;
	crew->owner = *owner;
	pthread_mutex_init(&crew->lock, NULL);
	sml_cond_init(&crew->changed);
}

void sml_crew_fini(struct sml_crew *crew)
{
	for (unsigned i = 0; i < SML_MAX_STRIPES; i++)
		sml_stall_report_close(crew->last[i]);
	pthread_cond_destroy(&crew->changed);
	pthread_mutex_destroy(&crew->lock);
}

void sml_crew_wake(struct sml_crew *crew)
{
	for (unsigned i = 0; i < crew->n_threads; i++)
		sml_progress_wake(crew->threads[i]);
	if (crew->callers_drive)
		sml_host_ring(crew->host);
}

void sml_crew_tell(struct sml_crew *crew)
{
	__atomic_add_fetch(&crew->events, 1, __ATOMIC_SEQ_CST);
	sml_crew_wake(crew);
}

void sml_crew_tell_others(struct sml_crew *crew, const struct sml_progress *by)
{
	if (crew->n_threads == 1)
		return;
	__atomic_add_fetch(&crew->events, 1, __ATOMIC_SEQ_CST);
	for (unsigned i = 0; i < crew->n_threads; i++) {
		struct sml_progress *other = crew->threads[i];

		if (other != by &&
		    __atomic_load_n(&other->resting, __ATOMIC_SEQ_CST) == SML_RESTING_BLOCKED)
			sml_progress_wake(other);
	}
}

void sml_crew_stop(struct sml_crew *crew)
{
	__atomic_store_n(&crew->stop, true, __ATOMIC_SEQ_CST);
}

void sml_crew_await_stop(struct sml_crew *crew)
{
	pthread_mutex_lock(&crew->lock);
	while (crew->n_stopped < crew->n_threads)
		pthread_cond_wait(&crew->changed, &crew->lock);
	pthread_mutex_unlock(&crew->lock);
}

void sml_crew_note_stopped(struct sml_crew *crew)
{
	pthread_mutex_lock(&crew->lock);
	crew->n_stopped++;
	pthread_cond_broadcast(&crew->changed);
	pthread_mutex_unlock(&crew->lock);
}
