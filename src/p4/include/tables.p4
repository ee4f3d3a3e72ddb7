/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables of the slot rule and of forwarding, for all targets; switch/p4/ fills them. What they
 * answer is in metadata_t, which also carries it from ingress to egress. The order of the checks is
 * that of sml_pool_check() (core/pool.h).
 */
#ifndef SML_P4_TABLES
#define SML_P4_TABLES

typedef bit<16> port_number_t;

// How often a packet has passed: only packets of the staged form (staged.p4) pass more than once.
// Not every program uses all of them.
const bit<8> PASS_FIRST = 0;
@noWarn("unused") const bit<8> PASS_LOAD = 1;
@noWarn("unused") const bit<8> PASS_FINISH = 2;
@noWarn("unused") const bit<8> PASS_MISMATCH = 3;

#ifndef RESULT_DATAGRAM_BYTES
#define RESULT_DATAGRAM_BYTES UDP_BYTES + SML_HEADER_BYTES + 4 * SML_LANES
#endif

// Of v1model: what a packet keeps when it passes again.
#define FIELDS_OF_PASS 1

struct metadata_t {
    bit<8> verdict;
    // jobs: where the job's slots are, and what is fixed for its epoch
    bit<16> place;
    bit<32> epoch;
    bit<64> tag;
    bit<64> daemon_key;
    bit<32> incarnation; // a buffer that belongs to another incarnation is fresh
    bit<64> all;         // the bits of all ranks
    bit<32> first_buffer;
    bit<16> head_slots;
    bit<16> data_slots;
    bit<8> shards;
    bit<32> shards_inverse; // more than 2^24 / shards, by at most 1
    bit<8> started;
    bit<16> group; // multicast: one node for each rank
    // ranks and members: are there entries?
    bit<8> is_rank;
    bit<8> is_member;
    bit<64> rank_bit;
    bit<32> rank_bit_0; // its lower half
    bit<32> rank_bit_1;
    bit<32> all_0;
    bit<32> all_1;
    port_number_t rank_port;
    // slots, of the staged form: the buffer of the packet's use, and its stream's place in `tickets`
    bit<8> is_placed;
    bit<16> first_of_slot;
    bit<16> buffer;
    bit<16> stream;
    bit<32> first_ticket;
    // the staged form (staged.p4)
    bit<8> pass;
    @field_list(FIELDS_OF_PASS)
    bit<8> next_pass;
    bit<8> is_use_first;
    bit<32> expected;
    // what to do with the packet
    bit<8> is_result;
    bit<8> to_rank;
    bit<8> is_flooded;
    port_number_t port; // 0xffff: none
}

const port_number_t NO_PORT = 0xffff;

// Whose job is it? `known` is false for all other traffic.
control JobLookup(inout headers_t hdr, inout metadata_t meta, out bool known) {
    action job(bit<16> place, bit<32> epoch, bit<64> tag, bit<64> daemon_key,
               bit<32> incarnation, bit<64> all, bit<32> first_buffer, bit<16> head_slots,
               bit<16> data_slots, bit<8> shards, bit<32> shards_inverse, bit<8> started,
               bit<16> group) {
        meta.place = place;
        meta.epoch = epoch;
        meta.tag = tag;
        meta.daemon_key = daemon_key;
        meta.incarnation = incarnation;
        meta.all = all;
        meta.first_buffer = first_buffer;
        meta.head_slots = head_slots;
        meta.data_slots = data_slots;
        meta.shards = shards;
        meta.shards_inverse = shards_inverse;
        meta.started = started;
        meta.group = group;
    }

    table jobs {
        key = {
            hdr.sml.job: exact;
        }
        actions = { job; @defaultonly NoAction; }
        const default_action = NoAction();
        size = SML_MAX_JOBS;
    }

    apply {
        known = jobs.apply().hit;
    }
}

// Who is the sender? All keys are in the packet, so hardware can look into these tables and into
// `jobs` at the same time.
control Admission(inout headers_t hdr, inout metadata_t meta) {
    action rank(bit<64> rank_bit, port_number_t port) {
        meta.is_rank = 1;
        meta.rank_bit = rank_bit;
        meta.rank_port = port;
    }

    action member() {
        meta.is_member = 1;
    }

    table ranks {
        key = {
            hdr.sml.job: exact;
            hdr.sml.rank: exact;
        }
        actions = { rank; @defaultonly NoAction; }
        const default_action = NoAction();
        size = SML_MEMBERS;
    }

    table members {
        key = {
            hdr.sml.job: exact;
            hdr.sml.epoch: exact;
            hdr.sml.rank: exact;
            hdr.sml.key: exact;
        }
        actions = { member; @defaultonly NoAction; }
        const default_action = NoAction();
        size = SML_MEMBERS;
    }

    apply {
        ranks.apply();
        members.apply();
    }
}

// May the sender contribute to the job? Sets the verdict if not.
control AdmissionVerdict(inout headers_t hdr, inout metadata_t meta) {
    apply {
        if (meta.started == 0) {
            meta.verdict = SML_VERDICT_EARLY_USE;
        } else if (hdr.sml.epoch != meta.epoch) {
            meta.verdict = SML_VERDICT_WRONG_EPOCH;
        } else if (meta.is_rank == 0) {
            meta.verdict = SML_VERDICT_OUT_OF_RANGE;
        } else if (meta.is_member == 0) {
            meta.verdict = SML_VERDICT_WRONG_COOKIE;
        }
    }
}

// Everything else: a switch with static entries, which floods what it does not know.
control Forwarding(inout headers_t hdr, inout metadata_t meta) {
    action to_port(port_number_t port) {
        meta.port = port;
    }

    action flood() {
        meta.is_flooded = 1;
    }

    table hosts {
        key = {
            hdr.ethernet.dst: exact;
        }
        actions = { to_port; @defaultonly flood; }
        const default_action = flood();
        size = SML_HOSTS;
    }

    apply {
        hosts.apply();
    }
}

// Egress: address a result to the rank meta.to_rank. The sender of the last contribution has
// addressed it to the daemon, whose MAC address becomes the source.
control Addressing(inout headers_t hdr, inout metadata_t meta, out bool found) {
    bit<8> has_tag;
    bit<16> tag_control;
    bit<16> network_type;

    // The tag follows in apply: no hardware has conditions in an action.
    action to_ethernet(mac_t mac, bit<8> tagged, bit<16> tci, bit<16> type) {
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
        hdr.vlan.setInvalid();
        hdr.ethernet.type = type;
        has_tag = tagged;
        tag_control = tci;
        network_type = type;
    }

    // With the parameters of to_ethernet(), which has run.
    @noWarn("uninitialized-use")
    action tag() {
        hdr.vlan.setValid();
        hdr.vlan.tci = tag_control;
        hdr.vlan.type = network_type;
        hdr.ethernet.type = TYPE_VLAN;
    }

    action to_udp(bit<16> src, bit<16> dst) {
        hdr.udp.src = src;
        hdr.udp.dst = dst;
    }

    action to_ipv4(mac_t mac, bit<8> tagged, bit<16> tci, bit<32> src, bit<32> dst,
                   bit<16> src_port, bit<16> dst_port) {
        to_ethernet(mac, tagged, tci, TYPE_IPV4);
        hdr.ipv6.setInvalid();
        hdr.ipv4.setValid();
        hdr.ipv4.version_ihl = 0x45;
        hdr.ipv4.tos = 0;
        hdr.ipv4.length = IPV4_BYTES + RESULT_DATAGRAM_BYTES;
        hdr.ipv4.id = 0;
        hdr.ipv4.fragment = 0x4000; // not to be fragmented
        hdr.ipv4.ttl = 64;
        hdr.ipv4.protocol = PROTOCOL_UDP;
        hdr.ipv4.src = src;
        hdr.ipv4.dst = dst;
        to_udp(src_port, dst_port);
    }

    action to_ipv6(mac_t mac, bit<8> tagged, bit<16> tci, bit<128> src, bit<128> dst,
                   bit<16> src_port, bit<16> dst_port) {
        to_ethernet(mac, tagged, tci, TYPE_IPV6);
        hdr.ipv4.setInvalid();
        hdr.ipv6.setValid();
        hdr.ipv6.version_class_flow = 0x60000000;
        hdr.ipv6.length = RESULT_DATAGRAM_BYTES;
        hdr.ipv6.next_header = PROTOCOL_UDP;
        hdr.ipv6.hop_limit = 64;
        hdr.ipv6.src = src;
        hdr.ipv6.dst = dst;
        to_udp(src_port, dst_port);
    }

    table peers {
        key = {
            meta.place: exact;
            meta.to_rank: exact;
            hdr.sml.shard: exact;
        }
        actions = { to_ipv4; to_ipv6; @defaultonly NoAction; }
        const default_action = NoAction();
        size = SML_MEMBERS;
    }

    apply {
        has_tag = 0;
        found = peers.apply().hit;
        if (has_tag == 1) {
            tag();
        }
    }
}

#endif
