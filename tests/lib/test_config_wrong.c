/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings that are refused: each error names the setting, its value, and what is allowed. */
#include <string.h>

#include "lib/settings/settings.h"
#include "support/environment.h"
#include "support/test.h"

static const struct variable wrong[] = {
	{"SWITCHML_RANK", "-1"},	   {"SWITCHML_RANK", "4096"},
	{"SWITCHML_RANK", "1x"},	   {"SWITCHML_RANK", " 1"},
	{"SWITCHML_WORLD_SIZE", "0"},	   {"SWITCHML_WORLD_SIZE", "4097"},
	{"SWITCHML_TIMEOUT", "1e3"},	   {"SWITCHML_TIMEOUT", "0"},
	{"SWITCHML_TIMEOUT", "1."},	   {"SWITCHML_TIMEOUT", "1,5"},
	{"SWITCHML_HEARTBEAT", "61"},	   {"SWITCHML_WIRE", "int 32"},
	{"SWITCHML_WIRE", "fp8"},	   {"SWITCHML_SLOTS", "0"},
	{"SWITCHML_SLOTS", "5000"},	   {"SWITCHML_THREADS", "17"},
	{"SWITCHML_MTU", "70000"},	   {"SWITCHML_DEBUG", "2"},
	{"SWITCHML_SPIN", "maybe"},	   {"SWITCHML_MASTER_PORT", "0"},
	{"MASTER_PORT", "65535"},	   {"SWITCHML_SLOTS", "99999999999999999999999"},
	{"SWITCHML_PORTS", "30000"},	   {"SWITCHML_PORTS", "30001-30000"},
	{"SWITCHML_PORTS", "0-30000"},	   {"SWITCHML_PORTS", "1-65536"},
	{"SWITCHML_PORTS", "30000-"},	   {"SWITCHML_PORTS", "-30000"},
	{"SWITCHML_PORTS", "30000:30007"}, {"SWITCHML_PORTS", "30000-30007,40000-40007"},
	{"SWITCHML_SPIN", "all"},	   {"SWITCHML_SUMMARY", "2"},
};

TEST(a_wrong_value_is_told_with_its_name_and_what_is_allowed)
{
	struct variable one[MAX_VARIABLES] = {{0}};
	struct sml_config config = SML_CONFIG_INIT;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		one[0] = wrong[i];
		set_environment(one);
		print_message("%s=%s\n", wrong[i].name, wrong[i].value);
		assert_int_equal(sml_config_init(&config), SML_ERROR_CONFIG);
		assert_non_null(strstr(sml_error_text(NULL), wrong[i].name));
		assert_non_null(strstr(sml_error_text(NULL), wrong[i].value));
		assert_non_null(strstr(sml_error_text(NULL), "must be"));
	}
}

/* config: NULL for that of the environment. */
static void expect_refused(const struct sml_config *config, const char *why)
{
	struct sml_context *context = (void *)&context;

	assert_int_equal(sml_open(&context, config), SML_ERROR_CONFIG);
	assert_null(context);
	assert_non_null(strstr(sml_error_text(NULL), why));
}

TEST(open_checks_the_struct_too)
{
	struct sml_config config = config_of(NULL);

	config.rank = 2;
	config.world_size = 2;
	expect_refused(&config, "rank 2 of a job of 2");
	config.rank = 0;
	config.heartbeat_ms = 5;
	expect_refused(&config, "heartbeat_ms is 5");
	config.size = 0;
	expect_refused(&config, "SML_CONFIG_INIT");
}

#define NUMBER(member, value, bounds)                                                              \
	{                                                                                          \
		offsetof(struct sml_config, member), value,                                        \
			#member " is " #value ": it must be " bounds                               \
	}

TEST(each_number_of_a_program_has_bounds)
{
	static const struct {
		size_t offset;
		int value;
		const char *text;
	} numbers[] = {
		NUMBER(world_size, 4097, "1 to 4096"),
		NUMBER(rank, -2, "0 to 4095"),
		NUMBER(master_port, 65536, "0 to 65535"),
		NUMBER(timeout_ms, 0, "1 to 2147483647"),
		NUMBER(heartbeat_ms, 60001, "100 to 60000"),
		NUMBER(wait_notice_ms, -1, "0 to 2147483647"),
		NUMBER(wire, 7, "0 to 6"),
		{offsetof(struct sml_config, wire), SML_WIRE_GRADIENT,
		 "the wire gradient is for single calls: set int32, int16, int8 or exact"},
		NUMBER(slots, 4033, "0 to 4032"),
		NUMBER(threads, 17, "0 to 16"),
		NUMBER(mtu, -1, "0 to 65535"),
		NUMBER(shared_memory, 2, "-1 to 1"),
		NUMBER(spin, 2, "0 to 1"),
		NUMBER(summary, 3, "0 to 2"),
		NUMBER(join, -1, "0 to 1"),
		NUMBER(min_ranks, -1, "0 to 4096"),
		NUMBER(max_ranks, 4097, "0 to 4096"),
		NUMBER(master_listens, 2, "0 to 1"),
		NUMBER(debug, 4, "0 to 3"),
	};
	struct sml_context *context;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct sml_config config = config_of(NULL);

		memcpy((char *)&config + numbers[i].offset, &numbers[i].value, sizeof(int));
		assert_int_equal(sml_open(&context, &config), SML_ERROR_CONFIG);
		assert_string_equal(sml_error_text(NULL), numbers[i].text);
	}
}

TEST(settings_have_their_own_texts_and_not_the_secret)
{
	char text[] = "one", secret[] = "0123456789abcdef";
	char record[] = "trace:a,failure:b%r%%,metrics:c.prom";
	struct sml_config config = config_of(NULL);
	struct sml_settings settings;

	config.switch_address = config.job = config.master_address = text;
	config.interface = text;
	config.record = record;
	config.rank = 4095;
	config.world_size = 4096;
	config.faults = "";
	config.job_key = sml_tls_is_built() ? secret : NULL;
	assert_int_equal(sml_settings_init(&settings, &config), 0);
	memset(text, 'x', sizeof(text));
	memset(record, 'x', sizeof(record));
	assert_string_equal(settings.config.switch_address, "one");
	assert_string_equal(settings.config.job, "one");
	assert_string_equal(settings.config.master_address, "one");
	assert_string_equal(settings.config.interface, "one");
	assert_string_equal(settings.files[SML_RECORD_TRACE], "a.4095");
	assert_string_equal(settings.files[SML_RECORD_FAILURE], "b4095%");
	assert_string_equal(settings.files[SML_RECORD_METRICS], "c.4095.prom");
	assert_null(settings.config.faults);
	assert_null(settings.config.job_key);
	assert_int_equal(settings.tls != NULL, sml_tls_is_built());
	sml_settings_fini(&settings);
}

/* A switch says the same of it. */
TEST(a_jobs_name_has_at_most_127_bytes)
{
	struct sml_context *context = NULL;
	struct sml_config config = config_of(NULL);
	char name[129];

	config.world_size = 1;
	memset(name, 'n', sizeof(name));
	name[128] = '\0';
	config.job = name;
	assert_int_equal(sml_open(&context, &config), SML_ERROR_CONFIG);
	assert_string_equal(sml_error_text(NULL),
			    "the job's name has 128 bytes: at most 127 are allowed");
	name[127] = '\0';
	assert_int_equal(sml_open(&context, &config), 0);
	sml_close(context);
}

/* A program of one rank would be the wrong guess. */
TEST(half_of_a_pair_is_refused_unless_the_program_says_more)
{
	static const struct {
		struct variable variables[MAX_VARIABLES];
		const char *text;
	} halves[] = {
		{{{"RANK", "2"}}, "RANK=2 is set, but WORLD_SIZE is not"},
		{{{"RANK", "0"}}, "RANK=0 is set, but WORLD_SIZE is not"},
		{{{"WORLD_SIZE", "4"}}, "WORLD_SIZE=4 is set, but RANK is not"},
		{{{"SWITCHML_RANK", "1"}},
		 "SWITCHML_RANK=1 is set, but SWITCHML_WORLD_SIZE is not"},
		{{{"SWITCHML_WORLD_SIZE", "2"}},
		 "SWITCHML_WORLD_SIZE=2 is set, but SWITCHML_RANK is not"},
	};
	const struct variable mixed[MAX_VARIABLES] = {{"SWITCHML_RANK", "1"}, {"WORLD_SIZE", "2"}};
	const struct variable alone[MAX_VARIABLES] = {{"WORLD_SIZE", "1"}};
	struct sml_context *context;
	struct sml_config config;

	for (size_t i = 0; i < sizeof(halves) / sizeof(halves[0]); i++) {
		config = config_of(halves[i].variables);
		expect_refused(&config, halves[i].text);
		assert_int_equal(sml_open(&context, NULL), SML_ERROR_CONFIG);
		config.rank = 0;
		config.world_size = 1;
		assert_int_equal(sml_open(&context, &config), 0);
		assert_int_equal(sml_close(context), 0);
	}
	config = config_of(mixed);
	assert_int_equal(config.rank, 1);
	assert_int_equal(config.world_size, 2);
	config = config_of(alone);
	assert_int_equal(config.rank, 0);
}

/* Rank 0's control port is one of the range, and all ranks know which. */
TEST(ports_bound_the_control_port_too)
{
	const struct variable alone[MAX_VARIABLES] = {{"SWITCHML_PORTS", "30000-30007"}};
	const struct variable elsewhere[MAX_VARIABLES] = {{"SWITCHML_PORTS", "30000-30007"},
							  {"MASTER_PORT", "29500"}};
	const struct variable among_them[MAX_VARIABLES] = {{"SWITCHML_PORTS", "30000-30007"},
							   {"MASTER_PORT", "30004"}};
	const struct variable asked[MAX_VARIABLES] = {{"SWITCHML_PORTS", "30000-30007"},
						      {"SWITCHML_MASTER_PORT", "28500"},
						      {"SWITCHML_RANK", "0"},
						      {"SWITCHML_WORLD_SIZE", "2"}};
	struct sml_config config = config_of(alone);

	assert_int_equal(config.master_port, 30000);
	config = config_of(elsewhere);
	assert_int_equal(config.master_port, 30000);
	config = config_of(among_them);
	assert_int_equal(config.master_port, 30005);
	config = config_of(asked);
	assert_int_equal(config.master_port, 28500);
	expect_refused(&config, "28500, is not one of SWITCHML_PORTS=30000-30007");
	config.ports = "7";
	expect_refused(&config, "SWITCHML_PORTS=\"7\" is not allowed");
}

/* A program that was started on many ranks may open a job with some of them. */
TEST(a_launcher_may_have_more_ranks_than_a_job)
{
	const struct variable many[MAX_VARIABLES] = {{"OMPI_COMM_WORLD_RANK", "4999"},
						     {"OMPI_COMM_WORLD_SIZE", "5000"}};
	struct sml_context *context;
	struct sml_config config = config_of(many);

	assert_int_equal(config.rank, 4999);
	expect_refused(NULL, "world_size is 5000: it must be 1 to 4096");
	/* One of many that needs a switch. */
	config.rank = 99;
	config.world_size = 100;
	expect_refused(&config, "without a switch has at most 64 ranks, not 100");
	config.switch_address = "embedded";
	expect_refused(&config, "without a switch has at most 64 ranks, not 100");
	config.switch_address = NULL;
	config.rank = 0;
	config.world_size = 1;
	assert_int_equal(sml_open(&context, &config), 0);
	assert_int_equal(sml_close(context), 0);
}
