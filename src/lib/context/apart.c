/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/context/apart.h"

#include "base/least.h"
#include "lib/context/join.h"

/* Ranks that are not apart have met by then, mostly. */
#define BEGIN_NS (1000 * SML_NS_PER_MS)
/* For a connection, at most. */
#define CONNECT_NS (200 * SML_NS_PER_MS)

void sml_apart_begin(struct sml_apart *apart, struct sml_stripe *stripe)
{
	/* A rank that has lost a switch here may be on its way to the others. */
	bool looks = stripe->index == 0 && stripe->n_retired == 0 &&
		     stripe->context->settings.config.switch_address &&
		     !stripe->context->settings.asks;

	*apart = (struct sml_apart){
		.stripe = stripe,
		.at_ns = looks ? sml_now_ns() + BEGIN_NS : UINT64_MAX,
	};
}

/* The stripe's own control waits meanwhile, so all together have a quarter of a heartbeat. */
static uint64_t connect_ns(const struct sml_apart *apart)
{
	const int heartbeat_ms = apart->stripe->context->settings.config.heartbeat_ms;

	return sml_earlier(CONNECT_NS, (uint32_t)heartbeat_ms * SML_NS_PER_MS / 4 /
					       apart->stripe->endpoints->n);
}

static void ask(struct sml_apart *apart, const struct sml_endpoint *endpoint)
{
	const struct sml_application application = {.elsewhere = true};
	struct sml_control **control = &apart->asked[apart->n_asked];

	if (sml_stripe_open_beside(apart->stripe, endpoint, sml_now_ns() + connect_ns(apart),
				   control) != 0)
		return;
	sml_control_request_join(*control, &application);
	apart->n_asked++;
}

/* One address of each other switch. */
static void ask_all(struct sml_apart *apart)
{
	const struct sml_endpoints *endpoints = apart->stripe->endpoints;
	const uint8_t own = apart->stripe->connection.endpoint->set;

	for (unsigned i = 0; i < endpoints->n; i++)
		if (endpoints->at[i].set != own &&
		    (i == 0 || endpoints->at[i].set != endpoints->at[i - 1].set))
			ask(apart, &endpoints->at[i]);
}

void sml_apart_look(void *self)
{
	struct sml_apart *apart = self;
	struct sml_control *own = apart->stripe->control;

	/* Whose error is the last that was set. */
	if (sml_control_failure(own) != 0)
		return;
	if (sml_now_ns() >= apart->at_ns && !sml_control_is_admitted(own)) {
		apart->at_ns = UINT64_MAX;
		/* A switch that has said nothing may be frozen, and the others at the next one. */
		if (sml_control_is_speaker(own))
			ask_all(apart);
	}
	for (unsigned i = 0; i < apart->n_asked; i++)
		if (sml_control_pump(apart->asked[i], NULL, 0, sml_now_ns()) == SML_ERROR_MISMATCH)
			sml_control_abort(own, SML_ERROR_MISMATCH, sml_error_last(),
					  SML_ABORT_TOLD);
}

void sml_apart_end(struct sml_apart *apart)
{
	for (unsigned i = 0; i < apart->n_asked; i++)
		sml_control_close(apart->asked[i]);
}
