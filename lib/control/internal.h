/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the three files of the control client share: control_client.c (set-up,
 * and the calls of the opening thread), control_messages.c (what the switch
 * says, and silence), control_thread.c (from the start to the end).
 */
#ifndef SML_LIB_CONTROL_INTERNAL_H
#define SML_LIB_CONTROL_INTERNAL_H

#include <event2/event.h>
#include <pthread.h>

#include "base/error.h"
#include "lib/control/channel.h"
#include "lib/control/client.h"
#include "lib/control/stall_report.h"

enum sml_control_phase {
	SML_CONTROL_CONNECTED,
	SML_CONTROL_JOINING,
	SML_CONTROL_ADMITTED,
	SML_CONTROL_READY,
	SML_CONTROL_RUNNING,
	SML_CONTROL_LEAVING,
	SML_CONTROL_LEFT,
	SML_CONTROL_FAILED,
	SML_CONTROL_LOST /* another switch may take over */
};

struct sml_control {
	const struct sml_settings *settings;
	const char *where; /* the switch, for texts */
	struct sml_stripe_place place;
	struct event_base *base;
	bool own_base;
	bool begun; /* all ranks have joined, and the switch has begun with them */
	struct sml_channel *channel;
	struct event *tick, *wake, *pump_timer;
	bool silent;	   /* the last tick found that nothing had come for too long */
	uint64_t missing;  /* ranks that had not joined when we last heard */
	char refused[256]; /* why one of them could not, as the switch says; "": none tried */
	struct sml_admission admission;
	uint32_t *tables[SML_STREAMS];		 /* of admission.maps */
	const struct sml_resumption *resumption; /* while joining to go on */
	struct sml_meeting *meeting;		 /* of admission */
	bool has_slots;				 /* this rank brings some to the job */
	const bool *give_up;			 /* atomic; NULL: nobody says so */
	uint16_t start_lanes;
	struct sml_control_owner owner;
	pthread_t thread;
	bool threaded;

	/* Shared with callers once the thread runs. */
	int wake_fd;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum sml_control_phase phase;
	bool mismatch_wanted, mismatch_told;
	struct sml_disagreement mismatch;
	bool leave_wanted, stop_wanted, stalls_wanted;
	/* Of the switch's stripe, the first; or of each rank's. Each set once. */
	struct sml_stall_report *stalls[SML_MAX_STRIPES];
	struct sml_stall_report *last_words; /* with Abort, where ranks have the slots: no slots */
	int abort_error;		     /* 0: none wanted */
	char abort_text[SML_TEXT_BYTES];
	int error;
	char text[SML_TEXT_BYTES];
};

enum sml_control_phase sml_control_phase(struct sml_control *control);
void sml_control_set_phase(struct sml_control *control, enum sml_control_phase phase);

/* The connection is of no more use. The first reason counts. */
__attribute__((format(printf, 3, 4))) void sml_control_fail(struct sml_control *control, int error,
							    const char *format, ...);

/* 0, or that it has failed, told by sml_error_set(). */
int sml_control_failure(struct sml_control *control);

void sml_control_send(struct sml_control *control, const SmlControl__Envelope *message);

/* Callbacks of the channel, and of the events. self is the control. */
void sml_control_received(void *self, const SmlControl__Envelope *message);
void sml_control_ended(void *self, int error);
void sml_control_on_tick(evutil_socket_t fd, short what, void *self);
void sml_control_on_wake(evutil_socket_t fd, short what, void *self);

#endif
