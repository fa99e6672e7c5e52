package guard_test

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"
)

var quiet = slog.New(slog.DiscardHandler)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
