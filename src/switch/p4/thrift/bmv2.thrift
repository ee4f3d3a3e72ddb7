// SPDX-License-Identifier: BSD-3-Clause
//
// What we need of the Thrift interface of BMv2's simple_switch, with its names and numbers:
// https://github.com/p4lang/behavioral-model, thrift_src/standard.thrift and simple_pre_lag.thrift,
// targets/simple_switch/thrift/simple_switch.thrift.
namespace c_glib Bm

enum MatchParamType {
  EXACT = 0
}

struct MatchParamExact {
  1: binary key
}

struct MatchParam {
  1: MatchParamType type,
  2: optional MatchParamExact exact
}

struct AddEntryOptions {
  1: optional i32 priority
}

struct CounterValue {
  1: i64 bytes,
  2: i64 packets
}

struct ActionEntry {
  3: optional list<binary> action_data
}

// Of an entry that is read, only these matter.
struct Entry {
  3: i32 entry_handle,
  4: ActionEntry action_entry
}

exception InvalidTableOperation {
  1: i32 code
}

exception InvalidCounterOperation {
  1: i32 code
}

exception InvalidRegisterOperation {
  1: i32 code
}

exception InvalidMcOperation {
  1: i32 code
}

service Standard {
  i32 bm_mt_add_entry(1: i32 cxt_id, 2: string table_name, 3: list<MatchParam> match_key,
      4: string action_name, 5: list<binary> action_data, 6: AddEntryOptions options)
      throws (1: InvalidTableOperation ouch),
  void bm_mt_delete_entry(1: i32 cxt_id, 2: string table_name, 3: i32 entry_handle)
      throws (1: InvalidTableOperation ouch),
  void bm_mt_modify_entry(1: i32 cxt_id, 2: string table_name, 3: i32 entry_handle,
      4: string action_name, 5: list<binary> action_data)
      throws (1: InvalidTableOperation ouch),
  Entry bm_mt_get_entry_from_key(1: i32 cxt_id, 2: string table_name,
      3: list<MatchParam> match_key, 4: AddEntryOptions options)
      throws (1: InvalidTableOperation ouch),
  list<Entry> bm_mt_get_entries(1: i32 cxt_id, 2: string table_name)
      throws (1: InvalidTableOperation ouch),
  void bm_mt_clear_entries(1: i32 cxt_id, 2: string table_name, 3: bool reset_default_entry)
      throws (1: InvalidTableOperation ouch),
  CounterValue bm_counter_read(1: i32 cxt_id, 2: string counter_name, 3: i32 index)
      throws (1: InvalidCounterOperation ouch),
  void bm_counter_reset_all(1: i32 cxt_id, 2: string counter_name)
      throws (1: InvalidCounterOperation ouch),
  list<i64> bm_register_read_all(1: i32 cxt_id, 2: string register_array_name)
      throws (1: InvalidRegisterOperation ouch),
  void bm_register_write(1: i32 cxt_id, 2: string register_array_name, 3: i32 index, 4: i64 value)
      throws (1: InvalidRegisterOperation ouch),
  void bm_register_reset(1: i32 cxt_id, 2: string register_array_name)
      throws (1: InvalidRegisterOperation ouch),
  string bm_get_config()
}

service SimplePreLAG {
  i32 bm_mc_mgrp_create(1: i32 cxt_id, 2: i32 mgrp) throws (1: InvalidMcOperation ouch),
  void bm_mc_mgrp_destroy(1: i32 cxt_id, 2: i32 mgrp_handle) throws (1: InvalidMcOperation ouch),
  i32 bm_mc_node_create(1: i32 cxt_id, 2: i32 rid, 3: string port_map, 4: string lag_map)
      throws (1: InvalidMcOperation ouch),
  void bm_mc_node_associate(1: i32 cxt_id, 2: i32 mgrp_handle, 3: i32 l1_handle)
      throws (1: InvalidMcOperation ouch),
  void bm_mc_node_destroy(1: i32 cxt_id, 2: i32 l1_handle) throws (1: InvalidMcOperation ouch),
  string bm_mc_get_entries(1: i32 cxt_id) throws (1: InvalidMcOperation ouch)
}

service SimpleSwitch {
  i32 set_all_egress_queue_depths(1: i32 depth_pkts)
}
