/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The session with a P4Runtime switch: who may write, and the program.
 *
 * Of all clients, the one with the highest election id is the primary, and only this one may write.
 * A daemon's election id is the time when it began: so the one that was started last wins, and
 * earlier ones end. The primary that another one has replaced is told so on the stream.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "switch/p4/p4runtime/internal.h"

/* Of messages that nobody has read yet; more wait for the next time. */
#define MOST_MESSAGES 64
/* A program is compiled when it is loaded. */
#define LOAD_SECONDS 60
#define NO_SESSION   "no session of P4Runtime"

static const struct sml_rpc_method stream_method = {"/p4.v1.P4Runtime/StreamChannel",
						    &p4__v1__stream_message_response__descriptor};
static const struct sml_rpc_method set_method = {
	"/p4.v1.P4Runtime/SetForwardingPipelineConfig",
	&p4__v1__set_forwarding_pipeline_config_response__descriptor};
static const struct sml_rpc_method get_method = {
	"/p4.v1.P4Runtime/GetForwardingPipelineConfig",
	&p4__v1__get_forwarding_pipeline_config_response__descriptor};

/* ---- who may write ---- */

static int offer(struct sml_p4_target *target)
{
	P4__V1__MasterArbitrationUpdate arbitration = P4__V1__MASTER_ARBITRATION_UPDATE__INIT;
	P4__V1__StreamMessageRequest request = P4__V1__STREAM_MESSAGE_REQUEST__INIT;

	arbitration.device_id = target->device;
	arbitration.election_id = &target->election;
	request.update_case = P4__V1__STREAM_MESSAGE_REQUEST__UPDATE_ARBITRATION;
	request.arbitration = &arbitration;
	return sml_rpc_stream_send(target->stream, &request.base, CALL_SECONDS);
}

static int judge(struct sml_p4_target *target, const P4__V1__MasterArbitrationUpdate *arbitration)
{
	const P4__V1__Uint128 *primary = arbitration->election_id;

	if (arbitration->status == NULL || arbitration->status->code == 0)
		return 0;
	if (primary == NULL)
		return target->services->error_set(
			-EACCES, "the P4 switch at %s has no primary controller", target->where);
	return target->services->error_set(
		-EACCES,
		"the P4 switch at %s has another primary controller, with the election id "
		"%llu:%llu "
		"(this daemon's is %llu:%llu): end it, then start this one again",
		target->where, (unsigned long long)primary->high, (unsigned long long)primary->low,
		(unsigned long long)target->election.high,
		(unsigned long long)target->election.low);
}

/* The next message within the time. 1: it says that we are the primary. 0: it is of no interest, or
 * there is none, and *none is true. */
static int hear(struct sml_p4_target *target, unsigned milliseconds, const char *what, bool *none)
{
	ProtobufCMessage *message = NULL;
	const P4__V1__StreamMessageResponse *response;
	int rc = sml_rpc_stream_receive(target->stream, &message, milliseconds);

	*none = rc == 0;
	if (rc < 0)
		return p4rt_fail(target, rc, what);
	if (rc == 0)
		return 0;
	response = (const P4__V1__StreamMessageResponse *)message;
	rc = 0;
	if (response->update_case == P4__V1__STREAM_MESSAGE_RESPONSE__UPDATE_ARBITRATION) {
		rc = judge(target, response->arbitration);
		if (rc == 0)
			rc = 1;
	}
	protobuf_c_message_free_unpacked(message, NULL);
	return rc;
}

int p4rt_become_primary(struct sml_p4_target *target)
{
	struct timespec now;
	bool none = false;
	int rc;

	clock_gettime(CLOCK_REALTIME, &now);
	target->election = (P4__V1__Uint128)P4__V1__UINT128__INIT;
	target->election.low = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	rc = sml_rpc_stream_open(&target->stream, target->rpc, &stream_method, CALL_SECONDS);
	if (rc == 0)
		rc = offer(target);
	if (rc < 0)
		return p4rt_fail(target, rc, NO_SESSION);
	for (unsigned i = 0; i < MOST_MESSAGES && rc == 0 && !none; i++)
		rc = hear(target, CALL_SECONDS * 1000, NO_SESSION, &none);
	if (rc == 0)
		return target->services->error_set(
			-ETIMEDOUT,
			"the P4 switch at %s does not say who its primary is: does it "
			"speak P4Runtime, and has it a device %u?",
			target->where, target->device);
	return rc < 0 ? rc : 0;
}

int p4rt_check_primary(struct sml_p4_target *target)
{
	bool none = false;
	int rc = 0;

	for (unsigned i = 0; i < MOST_MESSAGES && rc >= 0 && !none; i++)
		rc = hear(target, 0, "it has ended the session", &none);
	return rc < 0 ? rc : 0;
}

/* ---- the program ---- */

static ProtobufCBinaryData whole(char *bytes, size_t n)
{
	return (ProtobufCBinaryData){.len = n, .data = (uint8_t *)bytes};
}

int p4rt_load(struct sml_p4_target *target, const struct sml_p4_program *program)
{
	P4__V1__SetForwardingPipelineConfigRequest request =
		P4__V1__SET_FORWARDING_PIPELINE_CONFIG_REQUEST__INIT;
	P4__V1__ForwardingPipelineConfig config = P4__V1__FORWARDING_PIPELINE_CONFIG__INIT;
	P4__V1__ForwardingPipelineConfig__Cookie cookie =
		P4__V1__FORWARDING_PIPELINE_CONFIG__COOKIE__INIT;
	int rc;

	cookie.cookie = target->election.low;
	config.p4info = whole(program->info, program->info_bytes);
	config.p4_device_config = whole(program->code, program->code_bytes);
	config.cookie = &cookie;
	request.device_id = target->device;
	request.election_id = &target->election;
	request.action = P4__V1__SET_FORWARDING_PIPELINE_CONFIG_REQUEST__ACTION__VERIFY_AND_COMMIT;
	request.config = &config;
	rc = sml_rpc_call(target->rpc, &set_method, &request.base, NULL, NULL, LOAD_SECONDS);
	return rc < 0 ? p4rt_fail(target, rc, "it does not take the program") : 0;
}

static int note_cookie(void *context, const ProtobufCMessage *message)
{
	const P4__V1__GetForwardingPipelineConfigResponse *reply =
		(const P4__V1__GetForwardingPipelineConfigResponse *)message;

	if (reply->config != NULL && reply->config->cookie != NULL)
		*(uint64_t *)context = reply->config->cookie->cookie;
	return 0;
}

int p4rt_check_program(struct sml_p4_target *target)
{
	P4__V1__GetForwardingPipelineConfigRequest request =
		P4__V1__GET_FORWARDING_PIPELINE_CONFIG_REQUEST__INIT;
	uint64_t cookie = 0;
	int rc;

	request.device_id = target->device;
	request.response_type =
		P4__V1__GET_FORWARDING_PIPELINE_CONFIG_REQUEST__RESPONSE_TYPE__COOKIE_ONLY;
	rc = sml_rpc_call(target->rpc, &get_method, &request.base, note_cookie, &cookie,
			  CALL_SECONDS);
	if (rc < 0)
		return p4rt_fail(target, rc, "no answer");
	return cookie == target->election.low
		       ? 0
		       : target->services->error_set(-ESTALE,
						     "the P4 switch at %s runs another program now",
						     target->where);
}
