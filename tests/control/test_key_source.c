/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading the job key (control/key.h): valid and invalid keys and files, and what stays in memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "base/error.h"
#include "control/key.h"
#include "control/tls.h"
#include "support/test.h"

#define SECRET	     "correct horse battery staple"
#define OTHER_SECRET "correct horse battery stable"

static const struct sml_key_source names = {"THE_KEY", "THE_KEY_FILE"};

/* ---- functions that replace libc's and OpenSSL's in this program ---- */

/* After this many bytes, a read fails. 0: none fails. */
static size_t fails_after;
static unsigned n_reads;
static const char *read_into;
static bool is_wiped;

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc's are reserved. */
ssize_t read(int fd, void *bytes, size_t n)
{
	n_reads++;
	if (read_into == NULL)
		read_into = bytes;
	if (fails_after == 0)
		return syscall(SYS_read, fd, bytes, n);
	if ((const char *)bytes >= read_into + fails_after) {
		errno = EIO;
		return -1;
	}
	return syscall(SYS_read, fd, bytes, n < fails_after ? n : fails_after);
}

void OPENSSL_cleanse(void *ptr, size_t len)
{
	const char *begin = ptr;

	memset(ptr, 0, len);
	is_wiped |= begin <= read_into && begin + len >= read_into + fails_after;
}

/* ---- keys ---- */

static void expect_refusal(const struct sml_key_source *source, const char *why)
{
	struct sml_key key;

	assert_true(sml_key_read(&key, source, &names) < 0);
	if (strstr(sml_error_last(), why) == NULL)
		fail_msg("'%s' does not say '%s'", sml_error_last(), why);
	/* The text must not show the secret. */
	if (source->secret != NULL && source->secret[0] != '\0')
		assert_null(strstr(sml_error_last(), source->secret));
}

TEST(a_key_has_16_to_1024_bytes)
{
	char secret[1026];
	struct sml_key_source source = {secret, NULL};
	struct sml_key key;

	for (size_t length = 0; length <= 1025; length++) {
		memset(secret, 'q', length);
		secret[length] = '\0';
		if (length >= 16 && length <= 1024)
			assert_int_equal(sml_key_read(&key, &source, &names), 1);
		else
			expect_refusal(&source, "it must have 16 to 1024");
	}
}

TEST(keys_differ_where_secrets_do)
{
	const struct sml_key_source one = {SECRET, NULL}, other = {OTHER_SECRET, NULL}, none = {0};
	struct sml_key key, same, different;

	assert_int_equal(sml_key_read(&key, &one, &names), 1);
	assert_int_equal(sml_key_read(&same, &one, &names), 1);
	assert_int_equal(sml_key_read(&different, &other, &names), 1);
	assert_memory_equal(&key, &same, sizeof(key));
	assert_memory_not_equal(&key, &different, sizeof(key));
	assert_int_equal(sml_key_read(&key, &none, &names), 0);
	sml_key_wipe(&same);
	assert_true(same.bytes[0] == 0 && memcmp(same.bytes, same.bytes + 1, 31) == 0);
}

static void write_file(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

TEST(a_file_has_the_key_and_nobody_else_may_read_it)
{
	static const char *const forms[] = {SECRET, SECRET "\n", SECRET "\r\n"};
	static const mode_t open_modes[] = {0644, 0604, 0606, 0660, 0620, 0601, 0666};
	static const mode_t modes[] = {0600, 0400, 0440, 0640};
	char path[] = "/tmp/sml-key-XXXXXX", long_text[1400], open_text[300];
	const struct sml_key_source file = {NULL, path}, direct = {SECRET, NULL};
	const struct sml_key_source both = {SECRET, path}, folder = {NULL, "/tmp"};
	struct sml_key key, wanted;

	close(mkstemp(path));
	assert_int_equal(sml_key_read(&wanted, &direct, &names), 1);
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		write_file(path, forms[i], modes[i]);
		assert_int_equal(sml_key_read(&key, &file, &names), 1);
		assert_memory_equal(&key, &wanted, sizeof(key));
	}
	for (size_t i = 0; i < sizeof(open_modes) / sizeof(open_modes[0]); i++) {
		write_file(path, SECRET, open_modes[i]);
		snprintf(open_text, sizeof(open_text),
			 "the job key in %s of THE_KEY_FILE is open to other users (mode %o): "
			 "chmod 600 %s, and create a new key if anyone may have read this one",
			 path, (unsigned)open_modes[i], path);
		expect_refusal(&file, open_text);
	}
	expect_refusal(&both, "is set twice, by THE_KEY and by THE_KEY_FILE");
	expect_refusal(&folder, "is not a regular file");
	write_file(path, "", 0600);
	expect_refusal(&file, "THE_KEY_FILE has 0 bytes");
	write_file(path, "short\n", 0600);
	expect_refusal(&file, "THE_KEY_FILE has 5 bytes");
	memset(long_text, 'k', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	write_file(path, long_text, 0600);
	expect_refusal(&file, "has more than 1024 bytes");
	/* A fifo without a writer must not block a program. */
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	expect_refusal(&file, "is not a regular file");
	unlink(path);
	expect_refusal(&file, "cannot be read: No such file");
}

TEST(a_file_that_fails_in_the_middle_leaves_nothing_in_memory)
{
	char path[] = "/tmp/sml-key-XXXXXX";
	const struct sml_key_source file = {NULL, path};
	struct sml_key key;

	close(mkstemp(path));
	write_file(path, SECRET, 0600);
	n_reads = 0;
	assert_int_equal(sml_key_read(&key, &file, &names), 1);
	if (n_reads == 0) {
		printf("left out: a file that fails (with _FORTIFY_SOURCE, read() has another "
		       "name)\n");
		unlink(path);
		skip();
	}
	read_into = NULL;
	is_wiped = false;
	fails_after = 20;
	expect_refusal(&file, "cannot be read: Input/output error");
	fails_after = 0;
	unlink(path);
	assert_true(is_wiped);
}

int main(void)
{
	if (!sml_tls_is_built()) {
		printf("this build has no TLS\n");
		return 77;
	}
	return test_run();
}
