/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of settings: words and numbers. Words are the same in variables, options and files. */
#ifndef SML_BASE_WORD_H
#define SML_BASE_WORD_H

#include <stdbool.h>

/* The last of a table has no word. */
struct sml_word {
	const char *word;
	int value;
};

/* enum sml_log_level, also by the words of NCCL, whose users type them. */
extern const struct sml_word sml_level_words[];
#define SML_LEVELS_ALLOWED "error, warn, info or trace"

/* 0 and 1, and what people call them; "all" is 2. */
extern const struct sml_word sml_switch_words[];
#define SML_SWITCH_ALLOWED "0 or 1, no or yes"

/* False: the table has no such word, or its value is above `most`. */
bool sml_parse_word(const struct sml_word *words, int most, const char *text, int *value);

/* Parse decimal digits, and nothing else, within the bounds. */
bool sml_parse_number(const char *text, long minimum, long maximum, long *number);

#endif
