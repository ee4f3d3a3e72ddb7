/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What `switchml status --json` prints of a switch, and its schema, by the table of fields;
 * man/switchml-status.1 has the members.
 */
#include <jansson.h>

#include "cmd/shared/fields.h"
#include "cmd/status/status.h"

static json_t *record_json(const struct sml_record *record, const void *base);

static json_t *integer(uint64_t value)
{
	return json_integer((json_int_t)value);
}

static json_t *counters_json(SmlControl__Counter *const *counters, size_t n)
{
	json_t *object = json_object();

	for (size_t i = 0; i < n; i++)
		json_object_set_new(object, counters[i]->name, integer(counters[i]->value));
	return object;
}

static json_t *records_json(const struct sml_record *record, const void *const *records, size_t n)
{
	json_t *array = json_array();

	for (size_t i = 0; i < n; i++)
		if (json_array_append_new(array, record_json(record, records[i])) < 0) {
			json_decref(array);
			return NULL;
		}
	return array;
}

static json_t *field_json(const struct sml_field *field, const void *base)
{
	const void *at = sml_field_at(field, base);
	const void *count = (const char *)base + field->count;

	if (at == NULL)
		return json_null();
	switch (field->type) {
	case SML_FIELD_TEXT:
		return json_string(*(const char *const *)at);
	case SML_FIELD_BOOLEAN:
		return json_boolean(*(const protobuf_c_boolean *)at);
	case SML_FIELD_U32:
		return integer(*(const uint32_t *)at);
	case SML_FIELD_U64:
	case SML_FIELD_MS:
		return integer(*(const uint64_t *)at);
	case SML_FIELD_INT:
		return json_integer(*(const int *)at);
	case SML_FIELD_NEXT:
		return integer(*(const uint32_t *)at - 1);
	case SML_FIELD_REAL:
		return json_real(*(const double *)at);
	case SML_FIELD_PART:
		return record_json(field->record, at);
	case SML_FIELD_RECORDS:
		return records_json(field->record, *(const void *const *const *)at,
				    *(const size_t *)count);
	case SML_FIELD_COUNTERS:
		return counters_json(*(SmlControl__Counter *const *const *)at,
				     *(const size_t *)count);
	}
	return NULL;
}

/* Adds the members to the object, and returns it; without memory, frees it and returns NULL. */
static json_t *add_members(json_t *object, const struct sml_record *record, const void *base)
{
	for (size_t i = 0; i < record->n; i++)
		if (json_object_set_new(object, record->fields[i].name,
					field_json(&record->fields[i], base)) < 0) {
			json_decref(object);
			return NULL;
		}
	return object;
}

static json_t *record_json(const struct sml_record *record, const void *base)
{
	return add_members(json_object(), record, base);
}

/* ---- rates ---- */

static void add_rates(json_t *object, bool known, const struct sml_record *record,
		      const void *rates)
{
	json_object_set_new(object, "rates", known ? record_json(record, rates) : json_null());
}

/* Also of its ranks and leaves, into the objects of the job. */
static void add_job_rates(const struct sml_view *view, const SmlControl__JobStatus *job,
			  json_t *object)
{
	json_t *workers = json_object_get(object, "workers");
	json_t *leaves = json_object_get(object, "leaves");
	struct sml_rank_rates *ranks = sml_view_ranks(job);
	struct sml_job_rates rates;

	if (ranks == NULL)
		return;

	sml_view_job_rates(view, job, &rates, ranks);
	add_rates(object, rates.known, &sml_job_rates_record, &rates);
	/* A leaf knows no counters of a switch from a rank behind it, but its traffic. */
	for (size_t i = 0; i < job->n_workers; i++)
		add_rates(json_array_get(workers, i), ranks[i].known || ranks[i].traffic.known,
			  &sml_rank_rates_record, &ranks[i]);
	for (size_t i = 0; i < job->n_branches; i++) {
		struct sml_branch_rates leaf;
		bool known = sml_view_branch_rates(view, job, job->branches[i], &leaf);

		add_rates(json_array_get(leaves, i), known, &sml_branch_rates_record, &leaf);
	}
	free(ranks);
}

static void add_all_rates(const struct sml_view *view, json_t *object)
{
	const SmlControl__Status *status = sml_view_status(view);
	json_t *jobs = json_object_get(object, "jobs");
	struct sml_switch_rates rates;

	for (size_t i = 0; i < status->n_jobs; i++)
		add_job_rates(view, status->jobs[i], json_array_get(jobs, i));
	sml_view_switch_rates(view, &rates);
	add_rates(object, rates.known, &sml_switch_rates_record, &rates);
}

json_t *sml_status_json(const struct sml_view *view, bool with_rates)
{
	const SmlControl__Status *status = sml_view_status(view);
	json_t *object;

	if (status == NULL)
		return json_pack("{s:s, s:s}", "address", view->address, "error", view->error);
	object = add_members(json_pack("{s:s, s:n}", "address", view->address, "error"),
			     &sml_switch_record, status);
	if (with_rates && object != NULL)
		add_all_rates(view, object);
	return object;
}

/* ---- the schema ---- */

static json_t *record_schema(const struct sml_record *record, bool nullable);

static json_t *type_schema(const char *type, bool nullable)
{
	return nullable ? json_pack("{s:[s, s]}", "type", type, "null")
			: json_pack("{s:s}", "type", type);
}

static json_t *number_schema(const char *type, const struct sml_field *field)
{
	json_t *schema = type_schema(type, field->nullable);

	json_object_set_new(schema, "minimum", json_integer(field->least));
	if (field->most > 0)
		json_object_set_new(schema, "maximum", json_integer(field->most));
	return schema;
}

static json_t *field_schema(const struct sml_field *field)
{
	switch (field->type) {
	case SML_FIELD_TEXT:
		return type_schema("string", field->nullable);
	case SML_FIELD_BOOLEAN:
		return type_schema("boolean", false);
	case SML_FIELD_REAL:
		return number_schema("number", field);
	case SML_FIELD_PART:
		return record_schema(field->record, field->nullable);
	case SML_FIELD_RECORDS:
		return json_pack("{s:s, s:o}", "type", "array", "items",
				 record_schema(field->record, false));
	case SML_FIELD_COUNTERS:
		return json_pack("{s:s, s:{s:s, s:i}, s:s}", "type", "object",
				 "additionalProperties", "type", "integer", "minimum", 0,
				 "description", "Verdicts and causes, by name.");
	default:
		return number_schema("integer", field);
	}
}

static json_t *described(json_t *schema, const char *text)
{
	if (text != NULL)
		json_object_set_new(schema, "description", json_string(text));
	return schema;
}

static json_t *record_schema(const struct sml_record *record, bool nullable)
{
	json_t *schema = type_schema("object", nullable);
	json_t *properties = json_object(), *required = json_array();

	for (size_t i = 0; i < record->n; i++) {
		const struct sml_field *field = &record->fields[i];

		json_object_set_new(properties, field->name,
				    described(field_schema(field), field->help));
		json_array_append_new(required, json_string(field->name));
	}
	if (record->rates != NULL)
		json_object_set_new(
			properties, "rates",
			described(record_schema(record->rates, true),
				  "Only with --watch: rates per second; null in the first "
				  "answer."));
	json_object_set_new(schema, "properties", properties);
	json_object_set_new(schema, "required", required);
	json_object_set_new(schema, "additionalProperties", json_false());
	return schema;
}

json_t *sml_status_schema(void)
{
	static const char *const names[] = {"address", "error"};
	json_t *answer = record_schema(&sml_switch_record, false);
	json_t *failure = record_schema(&(const struct sml_record){0}, false);

	for (size_t i = 0; i < 2; i++) {
		json_array_insert_new(json_object_get(answer, "required"), i,
				      json_string(names[i]));
		json_array_append_new(json_object_get(failure, "required"), json_string(names[i]));
	}
	json_object_update_new(json_object_get(answer, "properties"),
			       json_pack("{s:{s:s}, s:{s:s}}", "address", "type", "string", "error",
					 "type", "null"));
	json_object_update_new(json_object_get(failure, "properties"),
			       json_pack("{s:{s:s}, s:{s:s, s:i}}", "address", "type", "string",
					 "error", "type", "string", "minLength", 1));
	return json_pack("{s:s, s:s, s:s, s:s, s:{s:[o, o]}}", "$schema",
			 "https://json-schema.org/draft/2020-12/schema", "title",
			 "switchml status --json", "description",
			 "One object for each switch that was asked; none if the list of switches "
			 "is not valid.",
			 "type", "array", "items", "oneOf", answer, failure);
}
