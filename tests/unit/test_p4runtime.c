/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The module for P4Runtime with servers that do what no real switch does on request: they are
 * silent, speak another protocol, send bytes that are no message, or refuse with odd words. Each
 * mistake must end in time, with a line for the user. p4.sh and p4-slot.sh run the module with a
 * real switch.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "status.pb-c.h"
#include "support/rpc_server.h"
#include "switch/p4/p4runtime/internal.h"

#define SLOTS	    64
#define FATES	    "SmlIngress.fates"
#define JOBS	    "SmlIngress.job_lookup.jobs"
#define JOB	    "SmlIngress.job_lookup.job"
#define USES	    "SmlIngress.slot_step.slot_use"
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

extern const struct sml_p4_target_operations sml_p4_target_operations;
static const struct sml_p4_target_operations *const operations = &sml_p4_target_operations;

static const struct sml_p4_services services = {
	.version = SML_P4_TARGET_VERSION,
	.error_set = sml_error_set,
};

/* ---- messages ---- */

struct bytes {
	uint8_t all[512];
	size_t n;
};

static struct bytes packed(const ProtobufCMessage *message)
{
	struct bytes bytes;

	assert_true(protobuf_c_message_get_packed_size(message) <= sizeof(bytes.all));
	bytes.n = protobuf_c_message_pack(message, bytes.all);
	return bytes;
}

/* No message: a length that goes beyond the end. */
static const uint8_t garbage[] = {0x0a, 0x7f, 0x01};

static struct bytes arbitration(int code)
{
	P4__V1__MasterArbitrationUpdate update = P4__V1__MASTER_ARBITRATION_UPDATE__INIT;
	P4__V1__StreamMessageResponse response = P4__V1__STREAM_MESSAGE_RESPONSE__INIT;
	P4__V1__Uint128 election = P4__V1__UINT128__INIT;
	Google__Rpc__Status status = GOOGLE__RPC__STATUS__INIT;

	status.code = code;
	election.high = 1;
	election.low = 77;
	update.status = &status;
	update.election_id = &election;
	response.update_case = P4__V1__STREAM_MESSAGE_RESPONSE__UPDATE_ARBITRATION;
	response.arbitration = &update;
	return packed(&response.base);
}

/* A status whose details are one part's, or a part without error and then that one. */
static struct bytes details(int code, char *message)
{
	Google__Rpc__Status__Part parts[] = {GOOGLE__RPC__STATUS__PART__INIT,
					     GOOGLE__RPC__STATUS__PART__INIT};
	Google__Rpc__Status__Any anys[] = {GOOGLE__RPC__STATUS__ANY__INIT,
					   GOOGLE__RPC__STATUS__ANY__INIT};
	Google__Rpc__Status__Any *list[] = {&anys[0], &anys[1]};
	Google__Rpc__Status status = GOOGLE__RPC__STATUS__INIT;
	struct bytes each[2];

	parts[1].canonical_code = code;
	parts[1].message = message;
	for (unsigned i = 0; i < 2; i++) {
		each[i] = packed(&parts[i].base);
		anys[i].value = (ProtobufCBinaryData){each[i].n, each[i].all};
	}
	status.code = 2;
	status.details = list;
	status.n_details = 2;
	return packed(&status.base);
}

static struct bytes cookie(uint64_t value)
{
	P4__V1__ForwardingPipelineConfig__Cookie own =
		P4__V1__FORWARDING_PIPELINE_CONFIG__COOKIE__INIT;
	P4__V1__ForwardingPipelineConfig config = P4__V1__FORWARDING_PIPELINE_CONFIG__INIT;
	P4__V1__GetForwardingPipelineConfigResponse response =
		P4__V1__GET_FORWARDING_PIPELINE_CONFIG_RESPONSE__INIT;

	own.cookie = value;
	config.cookie = &own;
	response.config = &config;
	return packed(&response.base);
}

/* ---- a program ---- */

static char code[] =
	"{\"header_types\": [{\"name\": \"lanes_t\", \"fields\": [[\"a\", 2048, false]]}],"
	" \"register_arrays\": [{\"name\": \"" USES "\", \"size\": 128}]}";

static P4__Config__V1__Preamble preamble(uint32_t id, char *name)
{
	P4__Config__V1__Preamble own = P4__CONFIG__V1__PREAMBLE__INIT;

	own.id = id;
	own.name = name;
	return own;
}

/* What the module looks for, with one key of 32 bits, and one parameter of 9. */
static struct bytes description(int32_t buffers)
{
	static char jobs_name[] = JOBS, job_name[] = JOB, fates_name[] = FATES, uses_name[] = USES;
	P4__Config__V1__Preamble names[] = {preamble(1, jobs_name), preamble(2, job_name),
					    preamble(3, fates_name), preamble(4, uses_name)};
	P4__Config__V1__MatchField key = P4__CONFIG__V1__MATCH_FIELD__INIT, *keys[] = {&key};
	P4__Config__V1__Action__Param parameter = P4__CONFIG__V1__ACTION__PARAM__INIT,
				      *parameters[] = {&parameter};
	P4__Config__V1__Table table = P4__CONFIG__V1__TABLE__INIT, *tables[] = {&table};
	P4__Config__V1__Action action = P4__CONFIG__V1__ACTION__INIT, *actions[] = {&action};
	P4__Config__V1__Counter counter = P4__CONFIG__V1__COUNTER__INIT, *counters[] = {&counter};
	P4__Config__V1__Register use = P4__CONFIG__V1__REGISTER__INIT, *registers[] = {&use};
	P4__Config__V1__P4Info info = P4__CONFIG__V1__P4_INFO__INIT;

	key.id = parameter.id = 1;
	key.bitwidth = 32;
	parameter.bitwidth = 9;
	table.preamble = &names[0];
	table.match_fields = keys;
	action.preamble = &names[1];
	action.params = parameters;
	counter.preamble = &names[2];
	counter.size = 16;
	use.preamble = &names[3];
	use.size = buffers;
	table.n_match_fields = action.n_params = 1;
	info.tables = tables;
	info.actions = actions;
	info.counters = counters;
	info.registers = registers;
	info.n_tables = info.n_actions = info.n_counters = info.n_registers = 1;
	return packed(&info.base);
}

static int open_with(struct sml_p4_target **target, uint16_t port, char *json, struct bytes info)
{
	static char path[] = "program.json";
	const struct sml_p4_program program = {
		.path = path,
		.code = json,
		.code_bytes = strlen(json),
		.info = (char *)info.all,
		.info_bytes = info.n,
	};
	const struct sml_p4_place place = {.host = "127.0.0.1", .port = port};

	return operations->open(target, &place, &program, &services);
}

static int open_at(struct sml_p4_target **target, uint16_t port)
{
	return open_with(target, port, code, description(2 * SLOTS));
}

/* ---- worlds ---- */

static void expect_text(const char *text)
{
	if (strstr(sml_error_last(), text) == NULL)
		fail_msg("'%s' is not in '%s'", text, sml_error_last());
	assert_null(strchr(sml_error_last(), '\n'));
}

/* With a server that answers as listed, opening fails like this. */
static void expect_no_opening(const struct rpc_answer *answers, int error, const char *text)
{
	struct rpc_server *server = rpc_server_open(answers);
	struct sml_p4_target *target = NULL;

	assert_int_equal(open_at(&target, rpc_server_port(server)), error);
	expect_text(text);
	rpc_server_close(server);
}

/* Enough for open(): the list's first four. */
#define OPENS(primary)                                                                             \
	{"/StreamChannel", RPC_STREAM, (primary).all, (primary).n, 0, NULL},                       \
	{                                                                                          \
		"/SetForwardingPipelineConfig", RPC_REPLY, NULL, 0, 0, NULL                        \
	}

#define NO_PROGRAM                                                                                 \
	{                                                                                          \
		"/Read", RPC_REFUSE, NULL, 0, 9, "no program yet"                                  \
	}

/* ---- tests ---- */

static int listener(uint16_t *port)
{
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(own);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&own, &length), 0);
	*port = ntohs(own.sin_port);
	return fd;
}

static void a_host_without_a_server_is_told_at_once(void **state)
{
	struct sml_p4_target *target = NULL;
	uint16_t port;

	(void)state;
	close(listener(&port));
	assert_int_equal(open_at(&target, port), -ECONNREFUSED);
	expect_text("cannot be reached: Connection refused");
}

static void a_silent_host_is_told_in_time(void **state)
{
	struct sml_p4_target *target = NULL;
	uint64_t begin_ns = sml_now_ns();
	uint16_t port;
	int fd;

	(void)state;
	fd = listener(&port);
	assert_true(open_at(&target, port) < 0);
	expect_text("the P4 switch at 127.0.0.1 port ");
	/* Stream and answer: one patience each, and time for a slow machine. */
	assert_true(sml_now_ns() - begin_ns < 30000 * SML_NS_PER_MS);
	close(fd);
}

static void another_protocol_is_told(void **state)
{
	static const char words[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
	struct sml_p4_target *target = NULL;
	uint16_t port;
	int fd, connection;
	pid_t other;

	(void)state;
	fd = listener(&port);
	other = fork();
	assert_true(other >= 0);
	if (other == 0) {
		connection = accept(fd, NULL, NULL);
		(void)!write(connection, words, sizeof(words) - 1);
		close(connection);
		_exit(0);
	}
	assert_true(open_at(&target, port) < 0);
	expect_text("no session of P4Runtime");
	assert_int_equal(waitpid(other, NULL, 0), other);
	close(fd);
}

static void a_server_of_another_interface_is_told(void **state)
{
	const struct rpc_answer answers[] = {{.method = NULL}};

	(void)state;
	expect_no_opening(answers, -ENOSYS, "no such method");
}

static void an_unreadable_message_of_the_stream_is_told(void **state)
{
	const struct rpc_answer answers[] = {
		{"/StreamChannel", RPC_STREAM, garbage, sizeof(garbage), 0, NULL},
		{.method = NULL}};

	(void)state;
	expect_no_opening(answers, -EBADMSG, "a message that cannot be read");
}

static void a_server_that_names_no_primary_is_told(void **state)
{
	const struct rpc_answer answers[] = {{.method = "/StreamChannel", .how = RPC_SILENCE},
					     {.method = NULL}};

	(void)state;
	expect_no_opening(answers, -ETIMEDOUT, "does not say who its primary is");
}

static void another_primary_is_told_with_its_number(void **state)
{
	const struct bytes backup = arbitration(6);
	const struct rpc_answer answers[] = {OPENS(backup), {.method = NULL}};

	(void)state;
	expect_no_opening(answers, -EACCES,
			  "another primary controller, with the election id 1:77");
}

static void an_unreadable_answer_is_told(void **state)
{
	const struct bytes primary = arbitration(0);
	const struct rpc_answer answers[] = {
		OPENS(primary),
		{"/Read", RPC_REPLY, garbage, sizeof(garbage), 0, NULL},
		{.method = NULL}};

	(void)state;
	expect_no_opening(answers, -EBADMSG, "its multicast groups: an answer that cannot be read");
}

static void the_reason_why_a_program_is_refused_is_told_in_one_line(void **state)
{
	const struct bytes primary = arbitration(0);
	const struct rpc_answer answers[] = {
		{"/SetForwardingPipelineConfig", RPC_REFUSE, NULL, 0, 3, "line 1\nline\t2"},
		OPENS(primary),
		NO_PROGRAM,
		{.method = NULL}};

	(void)state;
	expect_no_opening(answers, -EINVAL, "it does not take the program: line 1 line 2");
}

static const struct sml_p4_row row = {
	.table = JOBS,
	.action = JOB,
	.keys = {{.bytes = {0, 0, 0, 5}, .n = 4}},
	.parameters = {{.bytes = {1, 0}, .n = 2}},
	.n_keys = 1,
	.n_parameters = 1,
};

/* An open target whose server answers writes and reads like this. */
static void with_target(const struct rpc_answer *answer,
			void (*run)(struct sml_p4_target *target, int error, const char *text),
			int error, const char *text)
{
	const struct bytes primary = arbitration(0);
	const struct rpc_answer answers[] = {*answer, OPENS(primary), NO_PROGRAM, {.method = NULL}};
	struct rpc_server *server = rpc_server_open(answers);
	struct sml_p4_target *target = NULL;

	if (open_at(&target, rpc_server_port(server)) < 0)
		fail_msg("%s", sml_error_last());
	run(target, error, text);
	operations->close(target);
	rpc_server_close(server);
}

static void insert(struct sml_p4_target *target, int error, const char *text)
{
	assert_int_equal(operations->insert(target, &row), error);
	expect_text(text);
}

static void a_refused_entry_is_told_with_the_reason_of_its_part(void **state)
{
	static char reason[] = "no such port";
	const struct bytes parts = details(11, reason);
	const struct rpc_answer refuses = {"/Write", RPC_REFUSE, parts.all, parts.n, 2, "1 of 2"};

	(void)state;
	with_target(&refuses, insert, -EINVAL, JOBS ": 1 of 2: no such port");
}

static void unreadable_details_are_left_out(void **state)
{
	const struct rpc_answer refuses = {"/Write", RPC_REFUSE, garbage, sizeof(garbage), 5, "no"};

	(void)state;
	with_target(&refuses, insert, -ENOENT, JOBS ": no");
}

static void a_write_without_an_answer_ends_in_time(void **state)
{
	const struct rpc_answer silent = {.method = "/Write", .how = RPC_SILENCE};

	(void)state;
	with_target(&silent, insert, -ETIMEDOUT, "no answer in time");
}

static void insert_too_much(struct sml_p4_target *target, int error, const char *text)
{
	struct sml_p4_row other = row;

	other.parameters[0].bytes[0] = 2; /* a tenth bit */
	assert_int_equal(operations->insert(target, &other), error);
	expect_text(text);
	other = row;
	other.n_keys = 0;
	assert_int_equal(operations->insert(target, &other), error);
	expect_text(text);
	other = row;
	other.action = "SmlIngress.job_lookup.other";
	assert_int_equal(operations->insert(target, &other), error);
	expect_text(text);
}

static void a_row_that_does_not_fit_the_program_is_told(void **state)
{
	const struct rpc_answer any = {.method = "/Write", .how = RPC_REPLY};

	(void)state;
	with_target(&any, insert_too_much, -EINVAL, "the P4 program has another table " JOBS);
}

static void read_counter(struct sml_p4_target *target, int error, const char *text)
{
	uint64_t packets, bytes;

	assert_int_equal(operations->read_counter(target, FATES, 3, &packets, &bytes), error);
	expect_text(text);
	assert_int_equal(operations->read_counter(target, FATES, 16, &packets, &bytes), -EINVAL);
	expect_text("the P4 program has another counter " FATES);
}

static void a_counter_without_a_value_is_told(void **state)
{
	const struct rpc_answer empty = {.method = "/Read", .how = RPC_REPLY};

	(void)state;
	with_target(&empty, read_counter, -EBADMSG, FATES ": it has no value");
}

static void check(struct sml_p4_target *target, int error, const char *text)
{
	assert_int_equal(operations->check(target), error);
	expect_text(text);
}

static void another_program_is_noticed(void **state)
{
	const struct bytes other = cookie(1);
	const struct rpc_answer reply = {
		"/GetForwardingPipelineConfig", RPC_REPLY, other.all, other.n, 0, NULL};

	(void)state;
	with_target(&reply, check, -ESTALE, "runs another program now");
}

/* No server is needed for this. */
static void expect_no_program(char *json, struct bytes info, const char *text)
{
	struct sml_p4_target *target = NULL;

	assert_int_equal(open_with(&target, 1, json, info), -EINVAL);
	expect_text(text);
}

static void files_that_are_not_our_program_are_told(void **state)
{
	static char other[] = "{\"header_types\": []}", none[] = "no JSON";
	struct bytes not_info = {.n = sizeof(garbage)}, empty = {.n = 0};

	(void)state;
	memcpy(not_info.all, garbage, sizeof(garbage));
	expect_no_program(code, not_info, "program.json: the .p4info.bin beside it is not P4Info");
	expect_no_program(other, description(2 * SLOTS),
			  "program.json is not p4/v1model/switchml.p4");
	expect_no_program(none, description(2 * SLOTS),
			  "program.json is not p4/v1model/switchml.p4");
	expect_no_program(code, empty, "describes another program");
	expect_no_program(code, description(4 * SLOTS), "describes another program");
}

static void numbers_have_their_shortest_form(void **state)
{
	static const struct {
		struct sml_p4_field field;
		size_t n;
		int32_t bits; /* the fewest that it fits into */
	} numbers[] = {
		{{.bytes = {0}, .n = 1}, 1, 1},
		{{.bytes = {0, 0, 0, 0}, .n = 4}, 1, 1},
		{{.bytes = {0, 0, 0, 1}, .n = 4}, 1, 1},
		{{.bytes = {0, 0xff}, .n = 2}, 1, 8},
		{{.bytes = {1, 0}, .n = 2}, 2, 9},
		{{.bytes = {0, 0, 1, 0xfe}, .n = 4}, 2, 9},
		{{.bytes = {0xff, 0, 0, 0, 0, 0, 0, 0}, .n = 8}, 8, 64},
		{{.bytes = {0x02, 0, 0, 0, 0, 1}, .n = 6}, 6, 42},
	};

	(void)state;
	for (unsigned i = 0; i < COUNT(numbers); i++) {
		ProtobufCBinaryData bytes = p4rt_bytes(&numbers[i].field);

		assert_int_equal(bytes.len, numbers[i].n);
		assert_ptr_equal(bytes.data,
				 numbers[i].field.bytes + numbers[i].field.n - numbers[i].n);
		assert_true(p4rt_fits(bytes, numbers[i].bits));
		if (numbers[i].bits > 1)
			assert_false(p4rt_fits(bytes, numbers[i].bits - 1));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_host_without_a_server_is_told_at_once),
		cmocka_unit_test(a_silent_host_is_told_in_time),
		cmocka_unit_test(another_protocol_is_told),
		cmocka_unit_test(a_server_of_another_interface_is_told),
		cmocka_unit_test(an_unreadable_message_of_the_stream_is_told),
		cmocka_unit_test(a_server_that_names_no_primary_is_told),
		cmocka_unit_test(another_primary_is_told_with_its_number),
		cmocka_unit_test(an_unreadable_answer_is_told),
		cmocka_unit_test(the_reason_why_a_program_is_refused_is_told_in_one_line),
		cmocka_unit_test(a_refused_entry_is_told_with_the_reason_of_its_part),
		cmocka_unit_test(unreadable_details_are_left_out),
		cmocka_unit_test(a_write_without_an_answer_ends_in_time),
		cmocka_unit_test(a_row_that_does_not_fit_the_program_is_told),
		cmocka_unit_test(a_counter_without_a_value_is_told),
		cmocka_unit_test(another_program_is_noticed),
		cmocka_unit_test(files_that_are_not_our_program_are_told),
		cmocka_unit_test(numbers_have_their_shortest_form),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
