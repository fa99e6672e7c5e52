package redis_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails when a test leaves something running. A closed cluster client ends its delayed look at
// the topology, which sleeps for a second, by itself.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}
