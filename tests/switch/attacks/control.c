/* SPDX-License-Identifier: BSD-3-Clause */
/* Attacks with control messages, and with bytes that are no messages: see attacks.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "attacks/attacks.h"
#include "control/envelope.h"
#include "support/messages.h"

#define MANY_PINGS  2700
#define ABORT_BYTES (250u << 10)

/* ---- frames ---- */

struct frame {
	uint8_t bytes[300000];
	size_t n;
};

static void put(struct frame *frame, const void *bytes, size_t n)
{
	if (frame->n + n > sizeof(frame->bytes))
		abort();
	memcpy(frame->bytes + frame->n, bytes, n);
	frame->n += n;
}

static void put_u32(struct frame *frame, uint32_t value)
{
	const uint8_t bytes[] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16),
				 (uint8_t)(value >> 8), (uint8_t)value};

	put(frame, bytes, sizeof(bytes));
}

static void put_message(struct frame *frame, const SmlControl__Envelope *message)
{
	size_t n = sml_control__envelope__get_packed_size(message);

	if (frame->n + n + 4 > sizeof(frame->bytes))
		abort();
	put_u32(frame, (uint32_t)n);
	sml_control__envelope__pack(message, frame->bytes + frame->n);
	frame->n += n;
}

static bool say_frame(int fd, const struct frame *frame)
{
	return attack_say(fd, frame->bytes, frame->n);
}

/* Open a connection, send this, and wait for the reaction. */
static void say_once(struct attack *attack, const struct frame *frame)
{
	int fd = attack_connect(attack);

	if (fd < 0)
		return;
	if (say_frame(fd, frame) && attack_hear(fd))
		attack_done(attack, 1);
	close(fd);
}

/* ---- connections that stay ---- */

static void idle(struct attack *attack)
{
	int fd = attack_connect(attack);

	if (fd < 0)
		return;
	attack_keep(attack, fd);
	attack_done(attack, 1);
}

static void half_a_message(struct attack *attack)
{
	static const uint8_t halves[][10] = {{0, 3, 0xf0, 0, 10, 0xfc, 0xdf, 15, 0x82, 1},
					     {22, 3, 1, 0x02, 0x00, 1, 0, 1, 0xfc, 3},
					     {0, 0}};
	struct frame *frame = calloc(1, sizeof(*frame));
	int fd = attack_connect(attack);

	if (frame != NULL && fd >= 0) {
		put(frame, halves[gen_below(&attack->gen, 3)], 10);
		/* A report may be 250 KiB long, but its end never comes. */
		frame->n = gen_below(&attack->gen, 4) ? 10 : 200000;
		if (say_frame(fd, frame))
			attack_done(attack, 1);
		attack_keep(attack, fd);
	}
	free(frame);
}

/* Sends questions without end, and never reads. */
static void deaf(struct attack *attack)
{
	static const uint8_t question[] = {0, 0, 0, 2, 0x6a, 0};
	int fd = attack_connect(attack), few = 2048;
	uint8_t questions[600];

	if (fd < 0)
		return;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &few, sizeof(few));
	for (size_t i = 0; i < sizeof(questions); i++)
		questions[i] = question[i % sizeof(question)];
	if (attack_say(fd, questions, sizeof(questions)))
		attack_done(attack, 1);
	attack_keep(attack, fd);
}

static void half_joined_world(struct attack *attack)
{
	struct frame frame = {.n = 0};
	int fd = attack_connect(attack);
	SmlControl__Join join;
	char name[32];

	if (fd < 0)
		return;
	snprintf(name, sizeof(name), "half-%u", gen_below(&attack->gen, 24));
	join = honest_join(name, gen_below(&attack->gen, 64), 64);
	join.head_slots = join.data_slots = gen_below(&attack->gen, 4096);
	put_message(&frame, sml_envelope(JOIN, join, &join));
	if (say_frame(fd, &frame) && attack_hear(fd))
		attack_done(attack, 1);
	attack_keep(attack, fd);
}

/* In the name of the running job, but without the secrets that only its ranks know. */
static void squatter(struct attack *attack)
{
	struct frame *frame = calloc(1, sizeof(*frame));
	SmlControl__Join join = honest_join(attack->victim->job, gen_below(&attack->gen, 2),
					    attack->victim->world_size);
	SmlControl__Resume report = SML_CONTROL__RESUME__INIT;
	SmlControl__StreamReport streams[2], *list[2] = {&streams[0], &streams[1]};
	static uint32_t chunks[8192];
	int fd = attack_connect(attack);

	if (frame != NULL && fd >= 0) {
		for (unsigned i = 0; i < 2; i++) {
			sml_control__stream_report__init(&streams[i]);
			streams[i].lacking = chunks;
			streams[i].n_lacking = gen_below(&attack->gen, 8192);
		}
		report.membership = gen_u64(&attack->gen);
		report.streams = list;
		report.n_streams = 2;
		if (gen_below(&attack->gen, 2))
			join.resume = &report;
		put_message(frame, sml_envelope(JOIN, join, &join));
		if (say_frame(fd, frame) && attack_hear(fd))
			attack_done(attack, 1);
		attack_keep(attack, fd);
	}
	free(frame);
}

/* ---- floods ---- */

/* Read and drop everything that has come. Returns whether the connection has ended. */
static bool has_ended(int fd)
{
	uint8_t ignored[65536];
	ssize_t n;

	do
		n = recv(fd, ignored, sizeof(ignored), MSG_DONTWAIT);
	while (n > 0);
	return n == 0 || (errno != EAGAIN && errno != EINTR);
}

/* Repeat the same bytes on one connection until it ends. */
static void flood(struct attack *attack, const void *bytes, size_t n)
{
	if (attack->fd < 0)
		attack->fd = attack_connect(attack);
	if (attack->fd < 0)
		return;
	if (attack_say(attack->fd, bytes, n))
		attack_done(attack, 1);
	/* The other attacks need a processor, too. */
	usleep(1000);
	if (!has_ended(attack->fd))
		return;
	close(attack->fd);
	attack->fd = -1;
}

static void pings(struct attack *attack)
{
	static const uint8_t ping[] = {0, 0, 0, 2, 0x32, 0};
	uint8_t many[sizeof(ping) * MANY_PINGS];

	for (size_t i = 0; i < sizeof(many); i++)
		many[i] = ping[i % sizeof(ping)];
	flood(attack, many, sizeof(many));
}

static void questions(struct attack *attack)
{
	static const uint8_t question[] = {0, 0, 0, 2, 0x6a, 0};
	uint8_t many[sizeof(question) * 50];

	for (size_t i = 0; i < sizeof(many); i++)
		many[i] = question[i % sizeof(question)];
	flood(attack, many, sizeof(many));
}

static void wrong_join(struct attack *attack)
{
	const struct victim *victim = attack->victim;
	SmlControl__Join join =
		honest_join(victim->job, gen_below(&attack->gen, 2), victim->world_size);
	struct frame frame = {.n = 0};

	switch (gen_below(&attack->gen, 5)) {
	case 0:
		join.library_version = (char *)(uintptr_t) "9.9.9";
		break;
	case 1:
		join.world_size++;
		break;
	case 2:
		join.protocol++;
		break;
	case 3:
		join.rank = join.world_size + gen_below(&attack->gen, 1000);
		break;
	default: /* a rank that is already present */
		break;
	}
	put_message(&frame, sml_envelope(JOIN, join, &join));
	say_once(attack, &frame);
}

/* A job joins and disappears. */
static void join_and_leave(struct attack *attack)
{
	static const uint8_t leave[] = {0, 0, 0, 2, 0x5a, 0};
	struct frame frame = {.n = 0};
	int fd = attack_connect(attack);
	SmlControl__Join join;
	char name[32];

	if (fd < 0)
		return;
	snprintf(name, sizeof(name), "come-and-go-%u", gen_below(&attack->gen, 100));
	join = honest_join(name, 0, 1);
	join.head_slots = gen_below(&attack->gen, 512);
	join.data_slots = gen_below(&attack->gen, 3584);
	put_message(&frame, sml_envelope(JOIN, join, &join));
	if (say_frame(fd, &frame) && attack_hear(fd)) {
		attack_done(attack, 1);
		/* Or it disappears without a message. */
		if (gen_below(&attack->gen, 2) && attack_say(fd, leave, sizeof(leave)))
			attack_hear(fd);
	}
	close(fd);
}

/* ---- what costs more to read than to send ---- */

/* Abort { stalls { slots { } slots { } … } }, in 250 KiB. */
static void many_stalls(struct attack *attack)
{
	struct frame *frame = calloc(1, sizeof(*frame));
	const uint32_t n = ABORT_BYTES;
	const uint8_t head[] = {
		0x52, 0x80 | ((n + 4) & 127), 0x80 | ((n + 4) >> 7 & 127), (uint8_t)((n + 4) >> 14),
		0x1a, 0x80 | (n & 127),	      0x80 | (n >> 7 & 127),	   (uint8_t)(n >> 14)};

	if (frame == NULL)
		return;
	put_u32(frame, (uint32_t)sizeof(head) + n);
	put(frame, head, sizeof(head));
	for (uint32_t i = 0; i < n; i += 2)
		put(frame, (const uint8_t[]){0x0a, 0}, 2);
	say_once(attack, frame);
	free(frame);
}

/* Join { resume { } resume { } … }; Join { unknown unknown … }; and bytes that are no message. */
static void odd_message(struct attack *attack)
{
	static const uint8_t repeated[] = {0x82, 1, 0}, unknown[] = {0xa0, 6, 1};
	struct frame frame = {.n = 0};
	uint32_t n = 3 * gen_below(&attack->gen, 1300);

	switch (gen_below(&attack->gen, 4)) {
	case 0:
	case 1:
		put_u32(&frame, n + 3);
		put(&frame, (const uint8_t[]){0x0a, 0x80 | (n & 127), (uint8_t)(n >> 7)}, 3);
		for (uint32_t i = 0; i < n; i += 3)
			put(&frame, gen_below(&attack->gen, 2) ? repeated : unknown, 3);
		break;
	case 2: /* longer than any allowed message */
		put_u32(&frame, (uint32_t)gen_u64(&attack->gen) | 1u << 24);
		put(&frame, (const uint8_t[]){0x0a, 0xff, 0xff, 0x7f}, 4);
		break;
	default:
		for (uint32_t i = 0; i < 200; i++)
			frame.bytes[frame.n++] = (uint8_t)gen_below(&attack->gen, 256);
		frame.bytes[0] |= 0x80;
		break;
	}
	say_once(attack, &frame);
}

struct attack attacks_on_control[] = {
	{.name = "idle connections", .act = idle, .enough = 1200, .keeps = 1100},
	{.name = "half messages", .act = half_a_message, .enough = 400, .keeps = 100},
	{.name = "deaf peers", .act = deaf, .enough = 200, .keeps = 60},
	{.name = "half-joined worlds", .act = half_joined_world, .enough = 350, .keeps = 320},
	{.name = "squatters", .act = squatter, .enough = 100, .keeps = 8},
	{.name = "floods of pings", .act = pings, .enough = 200},
	{.name = "floods of questions", .act = questions, .enough = 200},
	{.name = "wrong joins", .act = wrong_join, .enough = 200},
	{.name = "joins and leaves", .act = join_and_leave, .enough = 150},
	{.name = "aborts with many stalls", .act = many_stalls, .enough = 60},
	{.name = "odd messages", .act = odd_message, .enough = 200},
	{.name = NULL},
};
