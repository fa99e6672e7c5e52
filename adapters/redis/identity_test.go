package redis_test

import (
	"testing"

	"andes/adapters/redis"
	"andes/test/redistest"
)

// identity waits until the servers tell who they are.
func identity(t *testing.T, model *redis.ReadModel) (told string) {
	t.Helper()
	var err error
	if !redistest.Eventually(patience, func() bool { told, err = model.Identity(t.Context()); return err == nil }) {
		t.Fatal(err)
	}
	return told
}

// REDIS-02: a server that may have lost what it had acknowledged is another one.
func TestAServerIsAnotherOneWhenItMayHaveLostWrites(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	model := newModel(t, redistest.Open(t, redis.Config{Addrs: []string{server.Addr}}), redis.ReadModelConfig{})
	seen := map[string]string{}
	for _, step := range []struct {
		what  string
		does  func()
		other bool
	}{
		{"started", func() {}, true},
		{"asked again", func() {}, false},
		{"left by its clients", func() { server.Must("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") }, false},
		{"silent for a while", func() { server.Hang(); server.Resume() }, false},
		{"killed", func() { server.Kill(); server.Start() }, true},
		{"a replica for a while", func() { server.Must("REPLICAOF", "127.0.0.1", "1"); server.Must("REPLICAOF", "NO", "ONE") }, true},
	} {
		step.does()
		told := identity(t, model)
		if before, known := seen[told]; known == step.other {
			t.Errorf("after it was %s it is %q, as after it was %q", step.what, told, before)
		}
		seen[told] = step.what
	}
}

func TestAClusterIsAnotherOneWithAnyOfItsMasters(t *testing.T) {
	t.Parallel()
	servers := redistest.StartCluster(t, 3)
	model := newModel(t, redistest.Open(t, redis.Config{Addrs: []string{servers[0].Addr}}), redis.ReadModelConfig{})
	apply(t, model, stockEntry("A", 1, 1), stockEntry("B", 1, 1), stockEntry("C", 1, 1))
	first := identity(t, model)
	moveSlots(t, servers[0], servers[1])
	if got := identity(t, model); got != first {
		t.Errorf("after some slots moved it is %q, and was %q", got, first)
	}
	servers[2].Kill()
	servers[2].Start()
	if got := identity(t, model); got == first {
		t.Errorf("a master was started again, and it still is %q", got)
	}
}
