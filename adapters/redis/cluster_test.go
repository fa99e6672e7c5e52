package redis_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"andes/adapters/redis"
	"andes/projections"
	"andes/test/redistest"
)

// Field case REDIS-01: CROSSSLOT errors in a cluster only; a thousand keys that became a thousand calls; SKUs
// with braces; a slot that moves during the load.
func TestACluster(t *testing.T) {
	t.Parallel()
	servers := redistest.StartCluster(t, 3)
	client := redistest.Open(t, redis.Config{Addrs: []string{servers[0].Addr, servers[1].Addr}})
	model := newModel(t, client, redis.ReadModelConfig{})
	const many = 1000
	var skus []string
	for i := range many {
		skus = append(skus, []string{"S%d", "{same}%d", "{}{%d}", "}%d{", "{a{b}%d}"}[i%5])
		skus[i] = strings.Replace(skus[i], "%d", strconv.Itoa(i), 1)
	}
	write := func(position int64) {
		var entries []projections.Entry
		for i, sku := range skus {
			entries = append(entries, stockEntry(sku, position, position+int64(i)))
		}
		apply(t, model, entries...)
	}
	check := func(position int64) {
		t.Helper()
		copied, err := redis.NewReader(client).Stock(t.Context(), skus)
		if err != nil || len(copied.Found) != many {
			t.Fatalf("%d found, %v", len(copied.Found), err)
		}
		for i, sku := range skus {
			if copied.Found[sku].Net != position+int64(i) {
				t.Fatalf("%s has %d, want %d", sku, copied.Found[sku].Net, position+int64(i))
			}
		}
	}
	write(1)
	check(1)
	for _, server := range servers {
		keys, err := server.Must("DBSIZE").AsInt64()
		if err != nil || keys < many/5 {
			t.Errorf("a master of three has %d of %d keys, %v", keys, many, err)
		}
		reset(server)
	}
	write(2)
	check(2)
	for _, server := range servers {
		if calls := callsOf(t, server, "evalsha"); calls > 64/3+2 {
			t.Errorf("%d entries cost a master %d scripts", many, calls)
		}
		if calls := callsOf(t, server, "mget"); calls > 64+2 { // the scripts' own included
			t.Errorf("%d entries cost a master %d MGETs", many, calls)
		}
	}
	moveSlots(t, servers[0], servers[1])
	write(3)
	check(3)
}

func reset(server *redistest.Server) { server.Must("CONFIG", "RESETSTAT") }

// callsOf reads how often a command ran, from INFO commandstats.
func callsOf(t *testing.T, server *redistest.Server, command string) int {
	t.Helper()
	info, err := server.Must("INFO", "commandstats").ToString()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(info, "cmdstat_"+command+":calls=")
	if !found {
		return 0
	}
	digits, _, _ := strings.Cut(rest, ",")
	calls, err := strconv.Atoi(digits)
	if err != nil {
		t.Fatal(err)
	}
	return calls
}

// moveSlots moves some slots that hold keys to another master, as a resharding does.
func moveSlots(t *testing.T, from, to *redistest.Server) {
	t.Helper()
	id := func(server *redistest.Server) string {
		text, err := server.Must("CLUSTER", "MYID").ToString()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	fromID, toID := id(from), id(to)
	host, port, _ := strings.Cut(to.Addr, ":")
	for _, slot := range heldSlots(t, from, 5) {
		keys, err := from.Must("CLUSTER", "GETKEYSINSLOT", slot, "1000").AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		to.Must("CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
		from.Must("CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
		from.Must(append([]string{"MIGRATE", host, port, "", "0", "60000", "KEYS"}, keys...)...)
		to.Must("CLUSTER", "SETSLOT", slot, "NODE", toID)
		from.Must("CLUSTER", "SETSLOT", slot, "NODE", toID)
	}
}

// heldSlots gives some slots of which the server holds keys.
func heldSlots(t *testing.T, server *redistest.Server, most int) (slots []string) {
	t.Helper()
	keys, err := server.Must("KEYS", "*").AsStrSlice()
	if err != nil || len(keys) == 0 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	for _, key := range keys {
		slot, err := server.Must("CLUSTER", "KEYSLOT", key).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		if name := strconv.FormatInt(slot, 10); !slices.Contains(slots, name) {
			slots = append(slots, name)
		}
		if len(slots) == most {
			break
		}
	}
	return slots
}
