/* SPDX-License-Identifier: BSD-3-Clause */
/* What the checks have found: see doctor.h. */
#include <stdarg.h>
#include <stdio.h>

#include "cmd/doctor/doctor.h"
#include "control/text.h"

/* When all places are taken, a problem takes the last one, unless a problem has it. */
static struct doctor_finding *finding_for(struct doctor *doctor, enum doctor_level level)
{
	if (doctor->n < DOCTOR_MAX_FINDINGS)
		return &doctor->findings[doctor->n++];
	if (level > doctor->findings[DOCTOR_MAX_FINDINGS - 1].level)
		return &doctor->findings[DOCTOR_MAX_FINDINGS - 1];
	return &doctor->left_out;
}

void doctor_say(struct doctor *doctor, enum doctor_level level, const char *check, const char *fact,
		...)
{
	struct doctor_finding *finding;
	va_list arguments;

	finding = finding_for(doctor, level);
	doctor->latest = finding;
	finding->fix[0] = '\0';
	finding->level = level;
	finding->check = check;
	va_start(arguments, fact);
	vsnprintf(finding->fact, sizeof(finding->fact), fact, arguments);
	va_end(arguments);
	/* Peers have said some of it, and its end may be in the middle of a character. */
	sml_text_copy(finding->fact, sizeof(finding->fact), finding->fact);
}

void doctor_fix(struct doctor *doctor, const char *fix, ...)
{
	struct doctor_finding *finding = doctor->latest;
	va_list arguments;

	va_start(arguments, fix);
	vsnprintf(finding->fix, sizeof(finding->fix), fix, arguments);
	va_end(arguments);
	sml_text_copy(finding->fix, sizeof(finding->fix), finding->fix);
}

unsigned doctor_problems(const struct doctor *doctor)
{
	unsigned problems = 0;

	for (unsigned i = 0; i < doctor->n; i++)
		problems += doctor->findings[i].level == DOCTOR_PROBLEM;
	return problems;
}
