/* SPDX-License-Identifier: BSD-3-Clause */
/* A host and its port as a text, for ranks, switches and commands. */
#include "net/address.h"
#include "support/test.h"

#include <string.h>

struct form {
	const char *text, *host;
	int port; /* -1: none */
};

TEST(all_forms_are_taken_apart)
{
	static const struct form forms[] = {
		{"gpu1", "gpu1", -1},
		{"gpu1:28500", "gpu1", 28500},
		{"10.0.0.1:0", "10.0.0.1", 0},
		{"", "", -1},
		{":28500", "", 28500},
		{"::", "::", -1},
		{"::1", "::1", -1},
		{"fe80::1%eth0", "fe80::1%eth0", -1},
		{"[::1]", "::1", -1},
		{"[::1]:65535", "::1", 65535},
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		struct sml_host_port place;

		assert_true(sml_host_port_parse(forms[i].text, strlen(forms[i].text), &place));
		assert_string_equal(place.host, forms[i].host);
		assert_int_equal(place.has_port ? place.port : -1, forms[i].port);
	}
}

TEST(what_is_no_host_and_port_is_refused)
{
	static const char *const texts[] = {"gpu1:",	  "gpu1:x",	   "gpu1:+1", "gpu1: 1",
					    "gpu1:65536", "gpu1:-1",	   "[::1",    "[::1]x",
					    "[::1]:",	  "[::1]:99999999"};
	struct sml_host_port place;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_false(sml_host_port_parse(texts[i], strlen(texts[i]), &place));
}

/* Items of lists are not terminated: the parser must not read what follows them. */
TEST(only_so_many_bytes_are_read)
{
	struct sml_host_port place;
	char long_host[300];

	assert_true(sml_host_port_parse("gpu1:28500,gpu2:1", 10, &place));
	assert_int_equal(place.port, 28500);
	assert_true(sml_host_port_parse("gpu1,gpu2:1", 4, &place));
	assert_string_equal(place.host, "gpu1");
	assert_false(place.has_port);
	assert_false(sml_host_port_parse("[::1]:1", 4, &place));
	memset(long_host, 'a', sizeof(long_host));
	assert_true(sml_host_port_parse(long_host, 255, &place));
	assert_false(sml_host_port_parse(long_host, 256, &place));
}

TEST(a_text_is_parsed_as_what_it_was_made_of)
{
	static const struct form forms[] = {
		{"gpu1:28500", "gpu1", 28500},
		{"10.0.0.1:0", "10.0.0.1", 0},
		{"[::1]:65535", "::1", 65535},
		{"[fe80::1%eth0]:1", "fe80::1%eth0", 1},
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		struct sml_host_port place;
		char text[64];

		sml_host_port_text(text, sizeof(text), forms[i].host, (unsigned)forms[i].port);
		assert_string_equal(text, forms[i].text);
		assert_true(sml_host_port_parse(text, strlen(text), &place));
		assert_string_equal(place.host, forms[i].host);
		assert_int_equal(place.port, forms[i].port);
	}
}
