/* SPDX-License-Identifier: BSD-3-Clause */
/* `switchml status` and `doctor` ask a switch that sends any answer. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmd/shared/status_client.h"
#include "control/text.h"
#include "support/fake_switch.h"
#include "support/test.h"

#define PONG   "\0\0\0\2\x3a\0"
#define STATUS "\0\0\0\2\x72\0"

/* The answer; if `forever`, it is repeated until the peer has gone. */
struct hostile_switch {
	const void *bytes;
	size_t n;
	bool forever;
	pthread_t *interrupts; /* NULL, or the asking thread: it gets signals while it waits for the
				  answer */
};

static void answer(struct fake_switch *fake, int fd)
{
	struct hostile_switch *hostile = fake->self;
	char request[64];

	if (read(fd, request, sizeof(request)) <= 0)
		abort();
	for (unsigned i = 0; i < 20 && hostile->interrupts; i++) {
		pthread_kill(*hostile->interrupts, SIGUSR1);
		usleep(5000);
	}
	while (send(fd, hostile->bytes, hostile->n, MSG_NOSIGNAL) > 0 && hostile->forever)
		usleep(1000);
	shutdown(fd, SHUT_WR);
	while (read(fd, request, sizeof(request)) > 0)
		;
}

static char last_text[512]; /* the question below was answered with this */

/* Asks the switch. Returns the result of sml_status_client_query(). */
static int ask_hostile(struct hostile_switch *hostile, int timeout_ms)
{
	struct fake_switch fake = {.serve = answer, .self = hostile};
	SmlControl__Envelope *status = NULL;
	struct sml_status_client client;
	int rc;

	fake_switch_open(&fake);
	assert_int_equal(sml_status_client_open(&client, fake.address, timeout_ms), 0);
	rc = sml_status_client_query(&client, &status);
	assert_true((rc == 0) == (status != NULL));
	assert_true((rc == 0) == (client.talk.text[0] == '\0'));
	if (status != NULL)
		sml_control__envelope__free_unpacked(status, NULL);
	snprintf(last_text, sizeof(last_text), "%s", client.talk.text);
	sml_status_client_close(&client);
	fake_switch_close(&fake);
	return rc;
}

static int ask_one(const void *bytes, size_t n, bool forever, int timeout_ms)
{
	struct hostile_switch hostile = {.bytes = bytes, .n = n, .forever = forever};

	return ask_hostile(&hostile, timeout_ms);
}

static void ignore(int signal)
{
	(void)signal;
}

/* Like SIGCONT, after the process was stopped for a while. */
TEST(signals_do_not_end_the_wait)
{
	const struct sigaction action = {.sa_handler = ignore};
	pthread_t self = pthread_self();
	struct hostile_switch hostile = {
		.bytes = STATUS, .n = sizeof(STATUS) - 1, .interrupts = &self};

	sigaction(SIGUSR1, &action, NULL);
	assert_int_equal(ask_hostile(&hostile, 5000), 0);
}

TEST(status_comes_after_other_messages)
{
	static const char bytes[] = PONG PONG STATUS;

	assert_int_equal(ask_one(bytes, sizeof(bytes) - 1, false, 5000), 0);
}

/* The Pong is freed when the length is refused. */
TEST(pong_and_then_an_impossible_length_are_refused)
{
	static const char bytes[] = PONG "\xff\xff\xff\xff";

	assert_int_equal(ask_one(bytes, sizeof(bytes) - 1, false, 5000), -EPROTO);
}

TEST(refusal_is_told_in_its_words)
{
	static const char bytes[] = "\0\0\0\6\x52\4\x12\2no";

	assert_int_equal(ask_one(bytes, sizeof(bytes) - 1, false, 5000), -ECONNREFUSED);
	assert_string_equal(last_text, "no");
}

TEST(words_of_a_switch_do_nothing_to_a_terminal)
{
	static const char bytes[] = "\0\0\0\13\x52\11\x12\7no\x1b[2J\n";

	assert_int_equal(ask_one(bytes, sizeof(bytes) - 1, false, 5000), -ECONNREFUSED);
	assert_string_equal(last_text, "no?[2J?");
}

/* Nested, repeated, in a oneof, empty, and clean texts, which stay unchanged. */
TEST(words_anywhere_in_a_message_become_printable)
{
	char version[] = "1.0\r\xe2\x80\xae", job[] = "a\x1b]0;b\7",
	     clean[] = "gr\xc3\xbc\xc3\x9f\xe2\x82\xac", broken[] = "\xff";
	SmlControl__WorkerStatus worker = SML_CONTROL__WORKER_STATUS__INIT, *workers[] = {&worker};
	SmlControl__JobStatus jobs[2] = {SML_CONTROL__JOB_STATUS__INIT,
					 SML_CONTROL__JOB_STATUS__INIT},
			      *list[] = {&jobs[0], &jobs[1]};
	SmlControl__Status status = SML_CONTROL__STATUS__INIT;
	SmlControl__Envelope envelope = SML_CONTROL__ENVELOPE__INIT;

	worker.host = broken;
	jobs[0].job = clean;
	jobs[1].job = job;
	jobs[1].workers = workers;
	jobs[1].n_workers = 1;
	status.version = version;
	status.jobs = list;
	status.n_jobs = 2;
	envelope.body_case = SML_CONTROL__ENVELOPE__BODY_STATUS;
	envelope.status = &status;
	sml_text_clean_message(&envelope.base);
	assert_string_equal(version, "1.0????");
	assert_string_equal(clean, "gr\xc3\xbc\xc3\x9f\xe2\x82\xac");
	assert_string_equal(job, "a?]0;b?");
	assert_string_equal(broken, "?");
}

/* At once, though it goes on: no answer begins with such a message. */
TEST(messages_that_answer_nothing_are_refused)
{
	static const char start[] = "\0\0\0\2\x2a\0", long_pong[] = "\0\0\x20\0\x3a\0";

	assert_int_equal(ask_one(start, sizeof(start) - 1, true, 5000), -EPROTO);
	assert_string_equal(last_text,
			    "it sent a control message (start) that is not allowed as an "
			    "answer: is it a SwitchML switch?");
	assert_int_equal(ask_one(long_pong, sizeof(long_pong) - 1, false, 5000), -EPROTO);
}

TEST(switch_that_hangs_up_is_no_answer)
{
	assert_int_equal(ask_one(PONG, 6, false, 5000), -ECONNRESET);
}

TEST(switch_that_says_something_else_for_ever_is_given_up)
{
	assert_int_equal(ask_one(PONG, 6, true, 300), -ETIMEDOUT);
}
