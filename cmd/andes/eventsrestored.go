package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"andes/adapters/postgres"
)

// eventsRestoredCmd has the relay and the positions go on after the database was restored to an earlier time.
type eventsRestoredCmd struct {
	Since     string `help:"To what time or age the database was restored, or the first position that was recorded after that. What was recorded since then is published." placeholder:"MOMENT"`
	Published int64  `help:"The last position that Kafka and Redis know, where the backup was consistent: the relay's checkpoint (andes_relay_checkpoint) before the restore." placeholder:"POSITION"`
	reasoned
	output
}

// maxPosition is far beyond any log, and a number that JSON and Lua still keep exactly.
const maxPosition = 1 << 50

// Run implements the command.
func (c eventsRestoredCmd) Run(ctx context.Context, s *settings, _ *slog.Logger) error {
	if strings.TrimSpace(c.Reason) == "" {
		return errors.New("--reason is missing: it goes to the audit log")
	}
	if c.Published < 0 || c.Published > maxPosition {
		return fmt.Errorf("--published: positions are between 1 and %d", int64(maxPosition))
	}
	reader, err := openEvents(ctx, s)
	if err != nil {
		return err
	}
	defer reader.close()
	db, err := postgres.Open(ctx, s.postgres(), reader.registry)
	if err != nil {
		return err
	}
	defer db.Close()
	known := postgres.Restoration{Published: c.Published, Actor: operatorName(), Reason: c.Reason, At: time.Now()}
	if c.Since != "" {
		query, err := reader.query(ctx, eventFilter{}, eventSpan{From: c.Since}, "")
		if err != nil {
			return err
		}
		known.KnownTo = &query.after
	}
	goesBehind, goesOn, err := db.Restored(ctx, known)
	switch {
	case errors.Is(err, postgres.ErrSinceNeeded):
		return fmt.Errorf("%w: --since; what was recorded since then is new and gets published, too much does no harm", err)
	case errors.Is(err, postgres.ErrNothingToMend):
		return fmt.Errorf("%w: --published", err)
	case err != nil:
		return err
	}
	return c.print(map[string]int64{"newBehind": goesBehind, "goesOnAfter": goesOn}, func(out io.Writer) {
		fmt.Fprintf(out, "the relay goes on after position %d; new events get positions behind %d\n", goesOn, goesBehind)
		fmt.Fprintln(out, "build the read models anew: andes projections rebuild --from states --restart")
	})
}
