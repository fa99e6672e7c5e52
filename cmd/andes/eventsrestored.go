package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"andes/adapters/postgres"
)

// eventsRestoredCmd has the relay and the positions go on after the database was restored to an earlier time.
type eventsRestoredCmd struct {
	Since string `help:"If processes ran since the restore: when that was (a time or an age), or the first position since. What was recorded since then is published." placeholder:"MOMENT"`
	reasoned
	output
}

// Run implements the command.
func (c eventsRestoredCmd) Run(ctx context.Context, s *settings, _ *slog.Logger) error {
	if strings.TrimSpace(c.Reason) == "" {
		return errors.New("--reason is missing: it goes to the audit log")
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
	notBehind := int64(math.MaxInt64)
	if c.Since != "" {
		query, err := reader.query(ctx, eventFilter{}, eventSpan{From: c.Since}, "")
		if err != nil {
			return err
		}
		notBehind = query.after
	}
	checkpoint, goesOn, err := db.Restored(ctx, notBehind, operatorName(), c.Reason, time.Now())
	if err != nil {
		return err
	}
	return c.print(map[string]int64{"published": checkpoint, "goesOnAfter": goesOn}, func() {
		fmt.Printf("the relay goes on after position %d; new events get positions behind %d, which was published last\n", goesOn, checkpoint)
		fmt.Println("build the read models anew: andes projections rebuild --from states --restart")
	})
}
