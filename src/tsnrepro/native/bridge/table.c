/* SPDX-License-Identifier: MIT
 *
 * At which port addresses are: learned by source address and VLAN, or static (IEEE Std 802.1Q-2022,
 * 8.8).
 */
#include "state.h"

#include <rte_hash.h>
#include <rte_jhash.h>

enum { ADDRESSES = 4096, FOREVER = 0x7fffffff };

struct key {
	uint8_t mac[ADDRESS_BYTES];
	uint16_t vlan;
};

/* An entry is one word, so that a concurrent reader sees all of it. */
union entry {
	void *word;
	struct {
		int32_t port, seen_s;
	};
};

static struct rte_hash *table;
static uint64_t not_learned;

bool table_open(void)
{
	struct rte_hash_parameters parameters = {
		.name = "addresses",
		.entries = ADDRESSES,
		.key_len = sizeof(struct key),
		.hash_func = rte_jhash,
		.socket_id = SOCKET_ID_ANY,
		.extra_flag =
			RTE_HASH_EXTRA_FLAGS_RW_CONCURRENCY | RTE_HASH_EXTRA_FLAGS_MULTI_WRITER_ADD,
	};
	table = rte_hash_create(&parameters);
	return table != NULL;
}

static struct key key_of(const uint8_t *mac, uint16_t vlan)
{
	struct key key = {.vlan = vlan};
	memcpy(key.mac, mac, ADDRESS_BYTES);
	return key;
}

static void put(const struct key *key, int port, int64_t seen_s)
{
	union entry entry = {0};

	entry.port = port;
	entry.seen_s = (int32_t)seen_s;
	if (rte_hash_add_key_data(table, key, entry.word) < 0)
		not_learned++;
}

void table_pin(const uint8_t *mac, uint16_t vlan, int port)
{
	struct key key = key_of(mac, vlan);
	put(&key, port, FOREVER);
}

void table_learn(const uint8_t *mac, uint16_t vlan, int port, int64_t now_s)
{
	struct key key = key_of(mac, vlan);
	union entry entry;

	if (rte_hash_lookup_data(table, &key, &entry.word) >= 0 &&
		(entry.seen_s == FOREVER || (entry.port == port && entry.seen_s == (int32_t)now_s)))
		return;
	put(&key, port, now_s);
}

int table_find(const uint8_t *mac, uint16_t vlan)
{
	struct key key = key_of(mac, vlan);
	union entry entry;

	return rte_hash_lookup_data(table, &key, &entry.word) < 0 ? NOWHERE : entry.port;
}

static void remove_where(bool (*matches)(const union entry *, int64_t), int64_t value)
{
	const void *key;
	union entry entry;
	uint32_t place = 0;

	while (rte_hash_iterate(table, &key, &entry.word, &place) >= 0)
		if (entry.seen_s != FOREVER && matches(&entry, value)) {
			struct key copy = *(const struct key *)key;
			rte_hash_del_key(table, &copy);
		}
}

static bool is_older(const union entry *entry, int64_t second) { return entry->seen_s < second; }

static bool is_at(const union entry *entry, int64_t port) { return entry->port == port; }

void table_age(int64_t now_s, int64_t ageing_s) { remove_where(is_older, now_s - ageing_s); }

void table_forget(int port) { remove_where(is_at, port); }

uint64_t table_full(void) { return not_learned; }

void table_print(FILE *file, const struct bridge *bridge, int64_t now_s)
{
	const void *found;
	union entry entry;
	uint32_t place = 0;
	const char *comma = "";

	fputc('[', file);
	while (rte_hash_iterate(table, &found, &entry.word, &place) >= 0) {
		const struct key *key = found;
		const uint8_t *mac = key->mac;
		bool fixed = entry.seen_s == FOREVER;
		fprintf(file,
				"%s{\"mac\": \"%02x:%02x:%02x:%02x:%02x:%02x\", \"vlan\": %d, \"port\": \"%s\", "
				"\"static\": %s, \"age_s\": %d}",
				comma, mac[0], mac[1], mac[2], mac[3], mac[4], mac[5], key->vlan,
				bridge->ports[entry.port].name, fixed ? "true" : "false",
				fixed ? 0 : (int)(now_s - entry.seen_s));
		comma = ", ";
	}
	fputs("]\n", file);
}
