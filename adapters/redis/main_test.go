package redis_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails when a test leaves something running. A cluster client leaves two sleepers that end by
// themselves: one delays its look at the topology, one the end of connections to nodes that went.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}
