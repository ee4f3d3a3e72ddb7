/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/context/membership.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/least.h"
#include "lib/control/endpoints.h"
#include "net/address.h"

/* Ranks that are not apart have met by then, mostly. */
#define BEGIN_NS (1000 * SML_NS_PER_MS)
/* Between two looks, at most. */
#define PAUSE_NS (5000 * SML_NS_PER_MS)
/* That rank 0's port is open: those that look for it try again after 100 ms at most. */
#define PORT_NS (300 * SML_NS_PER_MS)
/* For a connection, at most. */
#define CONNECT_NS (200 * SML_NS_PER_MS)

void sml_apart_begin(struct sml_apart *apart, struct sml_stripe *stripe)
{
	/* A rank that has lost a switch here may be on its way to the others. */
	bool looks =
		stripe->index == 0 && stripe->n_retired == 0 && !stripe->context->settings.asks;
	uint64_t now_ns = sml_now_ns();

	*apart = (struct sml_apart){
		.stripe = stripe,
		.begun_ns = now_ns,
		.at_ns = looks ? now_ns + BEGIN_NS : UINT64_MAX,
	};
}

/* The stripe's own control waits meanwhile, so all together have a quarter of a heartbeat. */
static uint64_t connect_ns(const struct sml_apart *apart)
{
	const int heartbeat_ms = apart->stripe->context->settings.config.heartbeat_ms;

	return sml_earlier(CONNECT_NS, (uint32_t)heartbeat_ms * SML_NS_PER_MS / 4 /
					       apart->stripe->endpoints->n);
}

static struct sml_control *ask(const struct sml_apart *apart, const struct sml_endpoint *endpoint)
{
	const struct sml_application application = {.elsewhere = true};
	struct sml_control *control;

	if (sml_stripe_open_beside(apart->stripe, endpoint, sml_now_ns() + connect_ns(apart),
				   &control) != 0)
		return NULL;
	sml_control_request_join(control, &application);
	return control;
}

/* One address of each other switch. */
static void ask_all(struct sml_apart *apart)
{
	const struct sml_endpoints *endpoints = apart->stripe->endpoints;
	const uint8_t own = apart->stripe->connection.endpoint->set;

	for (unsigned i = 0; i < endpoints->n; i++) {
		if (endpoints->at[i].set == own ||
		    (i > 0 && endpoints->at[i].set == endpoints->at[i - 1].set))
			continue;
		apart->asked[apart->n_asked] = ask(apart, &endpoints->at[i]);
		apart->n_asked += apart->asked[apart->n_asked] != NULL;
	}
}

/* A name is asked about by another thread. */
static void look_up_rank_0(struct sml_apart *apart)
{
	const struct sml_context *context = apart->stripe->context;
	char place[320];
	int n;

	apart->places = calloc(1, sizeof(*apart->places));
	if (apart->places == NULL)
		return;
	sml_host_port_text(place, sizeof(place), sml_master_host(context),
			   (unsigned)context->settings.config.master_port);
	apart->resolver = sml_resolver_start(place, 0, apart->places);
	if (sml_endpoints_have_names(place))
		return;
	n = sml_endpoints_resolve(apart->places->at, place, 0, SML_DEFAULT_PORT);
	apart->places->n = n > 0 ? (unsigned)n : 0;
}

static void ask_rank_0(struct sml_apart *apart)
{
	if (apart->places == NULL)
		look_up_rank_0(apart);
	if (apart->resolver &&
	    __atomic_load_n(sml_resolver_moved(apart->resolver), __ATOMIC_ACQUIRE)) {
		free(apart->places);
		apart->places = sml_resolver_end(apart->resolver);
		apart->resolver = NULL;
	}
	if (apart->places == NULL || apart->places->n == 0)
		return;
	sml_control_close(apart->rank_0);
	/* As in find_rank_0(): its certificate names what the user said, "localhost" perhaps. */
	snprintf(apart->places->at[0].host, sizeof(apart->places->at[0].host), "%s",
		 apart->stripe->context->settings.config.master_address);
	apart->rank_0 = ask(apart, &apart->places->at[0]);
}

/* Rank 0's. Those that have come there were refused, and so have no switch. */
static void close_port(struct sml_apart *apart)
{
	char text[SML_TEXT_BYTES];

	if (sml_switch_close_told(apart->port, text, sizeof(text)))
		sml_control_abort(apart->stripe->control, SML_ERROR_MISMATCH, text, SML_ABORT_TOLD);
	apart->port = NULL;
}

/* Ranks may come later, so they are looked for again, and ever less often. */
static void look(struct sml_apart *apart, uint64_t now_ns)
{
	struct sml_control *own = apart->stripe->control;
	bool first = apart->at_ns == apart->begun_ns + BEGIN_NS;

	apart->at_ns = now_ns + sml_earlier(now_ns - apart->begun_ns, PAUSE_NS);
	/* A switch that has said nothing may be frozen, and the others at the next one. */
	if (!sml_control_is_speaker(own))
		return;
	if (first)
		ask_all(apart);
	if (sml_control_misses(own, 0))
		ask_rank_0(apart);
	if (apart->stripe->context->settings.rank != 0)
		return;
	if (apart->port)
		close_port(apart);
	apart->port = sml_listen_open_beside(apart->stripe->context);
	apart->port_ns = now_ns + PORT_NS;
}

static void hear(const struct sml_apart *apart, struct sml_control *asked)
{
	if (sml_control_pump(asked, NULL, 0, sml_now_ns()) == SML_ERROR_MISMATCH)
		sml_control_abort(apart->stripe->control, SML_ERROR_MISMATCH, sml_error_last(),
				  SML_ABORT_TOLD);
}

void sml_apart_look(void *self)
{
	struct sml_apart *apart = self;
	struct sml_control *own = apart->stripe->control;
	uint64_t now_ns = sml_now_ns();

	/* Whose error is the last that was set. */
	if (sml_control_failure(own) != 0)
		return;
	if (now_ns >= apart->at_ns && !sml_control_is_admitted(own))
		look(apart, now_ns);
	for (unsigned i = 0; i < apart->n_asked; i++)
		hear(apart, apart->asked[i]);
	if (apart->rank_0)
		hear(apart, apart->rank_0);
	if (apart->port && now_ns >= apart->port_ns)
		close_port(apart);
}

void sml_apart_end(struct sml_apart *apart)
{
	for (unsigned i = 0; i < apart->n_asked; i++)
		sml_control_close(apart->asked[i]);
	sml_control_close(apart->rank_0);
	sml_switch_close(apart->port);
	free(sml_resolver_end(apart->resolver));
	free(apart->places);
}
