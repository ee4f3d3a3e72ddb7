/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Headers of a frame, for all targets. A target has defined lanes_t, the lanes of a contribution as
 * it processes them, before it includes this file; and int8_t and int16_t, if it rounds such lanes.
 * constants.p4 is generated from core/ and defines switchml_t.
 */
#ifndef SML_P4_HEADERS
#define SML_P4_HEADERS

const bit<16> TYPE_IPV4 = 0x0800;
const bit<16> TYPE_IPV6 = 0x86dd;
const bit<16> TYPE_VLAN = 0x8100;
const bit<8> PROTOCOL_UDP = 17;

const bit<16> IPV4_BYTES = 20;
const bit<16> UDP_BYTES = 8;

typedef bit<48> mac_t;

header ethernet_t {
    mac_t dst;
    mac_t src;
    bit<16> type;
}

header vlan_t {
    bit<16> tci;
    bit<16> type;
}

header ipv4_t {
    bit<8> version_ihl;
    bit<8> tos;
    bit<16> length;
    bit<16> id;
    bit<16> fragment;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header ipv6_t {
    bit<32> version_class_flow;
    bit<16> length;
    bit<8> next_header;
    bit<8> hop_limit;
    bit<128> src;
    bit<128> dst;
}

header udp_t {
    bit<16> src;
    bit<16> dst;
    bit<16> length;
    bit<16> checksum;
}

struct headers_t {
    ethernet_t ethernet;
    vlan_t vlan;
    ipv4_t ipv4;
    ipv6_t ipv6;
    udp_t udp;
    switchml_t sml;
    lanes_t lanes;
#ifdef SML_ROUNDS_INT8
    int8_t int8;
#endif
#ifdef SML_ROUNDS_INT16
    int16_t int16;
#endif
}

#endif
