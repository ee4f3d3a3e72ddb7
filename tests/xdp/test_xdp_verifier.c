/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What verifiers ask of the XDP program: few instructions to follow, and no call under a lock.
 * Skipped if BPF is not permitted.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/test.h"
#include "support/xdp_pair.h"
#include "switchml.skel.h"

/* Far below the kernel's limit of a million: other compilers' code may cost the verifier more. */
#define MOST_VERIFIED 600000u

static void check_verified(int program, const char *name)
{
	struct bpf_prog_info about = {0};
	uint32_t length = sizeof(about);

	assert_int_equal(bpf_obj_get_info_by_fd(program, &about, &length), 0);
	print_message("%s: the verifier processed %u instructions\n", name, about.verified_insns);
	assert_in_range(about.verified_insns, 1, MOST_VERIFIED);
}

TEST(the_verifier_is_far_from_its_limit)
{
	int entry = sml_xdp_maps_entry_fd(pair_maps), int8_map = xdp_map_of(entry, "sml_int8"),
	    int8;
	uint32_t place = 0, id;

	assert_int_equal(bpf_map_lookup_elem(int8_map, &place, &id), 0);
	int8 = bpf_prog_get_fd_by_id(id);
	assert_true(int8 >= 0);
	check_verified(entry, "sml_entry");
	check_verified(int8, "sml_entry_int8");
	close(int8);
	close(int8_map);
}

/* How an instruction is reached: */
enum reached { UNLOCKED = 1, LOCKED = 2 };

/* Follow instruction i to the next ones. Returns whether that reached anything new. */
static bool follow(const struct bpf_insn *code, uint8_t *reached, size_t i)
{
	uint8_t class = BPF_CLASS(code[i].code), op = BPF_OP(code[i].code), how = reached[i];
	bool jumps = (class == BPF_JMP || class == BPF_JMP32) && op != BPF_CALL && op != BPF_EXIT;
	bool calls = class == BPF_JMP && op == BPF_CALL, falls = true, is_new = false;

	if (calls && code[i].src_reg == BPF_PSEUDO_CALL)
		assert_false(how & LOCKED);
	else if (calls && code[i].imm == BPF_FUNC_spin_lock)
		how = LOCKED;
	else if (calls && code[i].imm == BPF_FUNC_spin_unlock)
		how = UNLOCKED;
	if (class == BPF_JMP && (op == BPF_EXIT || op == BPF_JA))
		falls = false;
	for (int way = 0; way < 2; way++) {
		uint8_t *next = &reached[i + 1] + (way ? code[i].off : 0);

		if (!(way ? jumps : falls))
			continue;
		is_new = is_new || (how & ~*next);
		*next |= how;
	}
	return is_new;
}

static void check_locks(const struct bpf_program *program)
{
	const struct bpf_insn *code = bpf_program__insns(program);
	size_t n = bpf_program__insn_cnt(program), n_locked = 0;
	uint8_t *reached = calloc(n + 1, 1);
	bool goes_on = true;

	reached[0] = UNLOCKED;
	while (goes_on) {
		goes_on = false;
		for (size_t i = 0; i < n; i++)
			goes_on = (reached[i] && follow(code, reached, i)) || goes_on;
	}
	for (size_t i = 0; i < n; i++)
		n_locked += (reached[i] & LOCKED) != 0;
	assert_true(n_locked > 0);
	free(reached);
}

/* Kernels before 6.9 refuse such a program, but not the one that tests it. */
TEST(no_function_is_called_under_a_lock)
{
	struct switchml *opened = switchml__open();

	assert_non_null(opened);
	check_locks(opened->progs.sml_entry);
	check_locks(opened->progs.sml_entry_int8);
	switchml__destroy(opened);
}

int main(void)
{
	int rc;

	pair_load();
	rc = test_run();
	sml_xdp_maps_close(pair_maps);
	return rc;
}
