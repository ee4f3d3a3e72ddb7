/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/word.h"

#include <strings.h>

#include "switchml.h"

const struct sml_word sml_level_words[] = {{"error", SML_LOG_ERROR},  {"warn", SML_LOG_WARN},
					   {"warning", SML_LOG_WARN}, {"info", SML_LOG_INFO},
					   {"debug", SML_LOG_INFO},   {"trace", SML_LOG_TRACE},
					   {"version", SML_LOG_WARN}, {0}};

const struct sml_word sml_switch_words[] = {{"0", 0},	  {"1", 1},    {"no", 0},  {"yes", 1},
					    {"false", 0}, {"true", 1}, {"off", 0}, {"on", 1},
					    {"all", 2},	  {0}};

bool sml_parse_word(const struct sml_word *words, int most, const char *text, int *value)
{
	while (words->word != NULL && strcasecmp(words->word, text) != 0)
		words++;
	if (words->word != NULL)
		*value = words->value;
	return words->word != NULL && words->value <= most;
}

bool sml_parse_number(const char *text, long minimum, long maximum, long *number)
{
	long value = 0;

	if (*text == '\0')
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9' || value > 100000000000000000)
			return false;
		value = 10 * value + (*text - '0');
	}
	*number = value;
	return value >= minimum && value <= maximum;
}
