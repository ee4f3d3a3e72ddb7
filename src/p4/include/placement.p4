/* SPDX-License-Identifier: BSD-3-Clause */
/* Of the staged form (staged.p4): where a packet's slot is, and what the stages need to know of it. */
#ifndef SML_P4_PLACEMENT
#define SML_P4_PLACEMENT

// Where is the slot? An entry for each slot of a job, with the shard that serves
// it, checks both without arithmetic, and in the stage of the other tables.
control Placement(inout headers_t hdr, inout metadata_t meta) {
    // The buffer for even uses (the next one is for odd uses), the index of the stream's tickets,
    // and the first of them.
    action slot(bit<16> buffer, bit<16> stream, bit<32> first_ticket) {
        meta.is_placed = 1;
        meta.first_of_slot = buffer;
        meta.stream = stream;
        meta.first_ticket = first_ticket;
    }

    table slots {
        key = {
            hdr.sml.job: exact;
            hdr.sml.slot: exact;
            hdr.sml.shard: exact;
        }
        actions = { slot; @defaultonly NoAction; }
        const default_action = NoAction();
        size = SML_SLOTS;
    }

    apply {
        slots.apply();
    }
}

// What the registers' accesses need, which can compare and add, but not choose.
control Preparation(in headers_t hdr, inout metadata_t meta) {
    apply {
        meta.buffer = meta.first_of_slot | (bit<16>)hdr.sml.use[0:0];
        meta.rank_bit_0 = meta.rank_bit[31:0];
        meta.rank_bit_1 = meta.rank_bit[63:32];
        meta.all_0 = meta.all[31:0];
        meta.all_1 = meta.all[63:32];
        meta.is_use_first = 0;
        if (hdr.sml.use[31:1] == 0) {
            meta.is_use_first = 1;
        }
        if (meta.pass == PASS_FINISH) {
            meta.expected = hdr.sml.use;
        } else {
            meta.expected = hdr.sml.use - 1;
        }
    }
}

#endif
