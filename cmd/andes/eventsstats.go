package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"andes/adapters/postgres"
)

// eventsStatsCmd counts.
type eventsStatsCmd struct {
	eventSpan
	eventFilter
	Bucket time.Duration `help:"Width of the spans of time; 0: chosen to give some 20 of them." placeholder:"DURATION"`
	Top    int           `default:"10" help:"How many of the largest streams to name; 0: none, and the streams are not looked at."`
	output
}

const (
	maxTop     = 1000
	maxBuckets = 1000
	fewBuckets = 24 // at most, when the width is chosen here

	day = 24 * time.Hour
)

// bucketWidths are those that people read easily.
var bucketWidths = []time.Duration{
	time.Second, 10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour, day, 7 * day, 30 * day, 365 * day,
}

// Run implements the command.
func (c eventsStatsCmd) Run(ctx context.Context, s *settings, _ *slog.Logger) error {
	if c.Top < 0 || c.Top > maxTop {
		return fmt.Errorf("--top has to be in 0..%d", maxTop)
	}
	reader, err := openEvents(ctx, s)
	if err != nil {
		return err
	}
	defer reader.close()
	query, err := reader.query(ctx, c.eventFilter, c.eventSpan, "")
	if err != nil {
		return err
	}
	counted, err := reader.count(ctx, query, c.Bucket)
	if err != nil {
		return err
	}
	if counted.LargestStreams, err = reader.largest(ctx, c.Category, c.Top); err != nil {
		return err
	}
	if c.Output == "json" {
		return newEventPrinter(os.Stdout, true, true).line(counted)
	}
	return counted.print(os.Stdout)
}

// line prints one line of JSON.
func (p *eventPrinter) line(value any) error { return errors.Join(p.encode(value), p.flush()) }

// eventStats is what was counted.
type eventStats struct {
	After          int64         `json:"after"` // positions in (after, to]
	To             int64         `json:"to"`
	First          time.Time     `json:"first,omitzero"` // start of the first span with an event
	Events         int64         `json:"events"`
	Bytes          int64         `json:"payloadBytes"`
	PerSecond      json.Number   `json:"perSecond,omitempty"` // over the spans from the first with an event to the last
	BucketSeconds  int64         `json:"bucketSeconds"`
	Types          []typeCount   `json:"types"`
	Buckets        []bucketCount `json:"buckets"`
	LargestStreams []streamCount `json:"largestStreams,omitempty"` // by all of their events, whatever the span

	bucket time.Duration
}

type typeCount struct {
	Type   string `json:"type"`
	Events int64  `json:"events"`
	Bytes  int64  `json:"payloadBytes"`
}

type bucketCount struct {
	Since  time.Time `json:"since"`
	Events int64     `json:"events"`
}

type streamCount struct {
	Stream string `json:"stream"`
	Events int64  `json:"events"`
}

func (r *eventReader) count(ctx context.Context, query eventQuery, bucket time.Duration) (*eventStats, error) {
	bucket, err := r.bucket(ctx, query, bucket)
	if err != nil {
		return nil, err
	}
	progress := newScanProgress(os.Stderr, "counting", query.after, query.to)
	defer progress.end()
	types, buckets := map[string]typeCount{}, map[time.Time]int64{}
	reached := query.after
	for page, err := range r.log.Count(ctx, query.LogFilter, query.after, query.to, bucket) {
		if err != nil {
			return nil, (&walk{reached: reached}).broken(ctx, err)
		}
		for _, count := range page.Counts {
			of := types[count.Type]
			types[count.Type] = typeCount{count.Type, of.Events + count.Events, of.Bytes + count.Bytes}
			buckets[count.Since.UTC()] += count.Events
		}
		if len(buckets) > maxBuckets {
			return nil, fmt.Errorf("there are more than %d spans of %s; give a greater --bucket", maxBuckets, bucket)
		}
		reached = page.Reached
		progress.at(reached)
	}
	return summary(query, bucket, types, buckets), nil
}

// bucket gives the width of the spans, chosen by the times of the first and the last event.
func (r *eventReader) bucket(ctx context.Context, query eventQuery, asked time.Duration) (time.Duration, error) {
	if asked != 0 && asked < time.Second {
		return 0, errors.New("--bucket has to be a second at least")
	}
	if asked != 0 {
		return asked, nil
	}
	_, first, found, err := r.log.Next(ctx, query.after)
	if err != nil || !found {
		return bucketWidths[0], err
	}
	_, last, _, err := r.log.Next(ctx, query.to-1)
	if err != nil {
		return 0, err
	}
	for _, width := range bucketWidths {
		if last.Sub(first)/width < fewBuckets {
			return width, nil
		}
	}
	return bucketWidths[len(bucketWidths)-1], nil
}

func summary(query eventQuery, bucket time.Duration, types map[string]typeCount, buckets map[time.Time]int64) *eventStats {
	s := &eventStats{After: query.after, To: query.to, BucketSeconds: int64(bucket / time.Second), Types: []typeCount{}, Buckets: []bucketCount{}, bucket: bucket}
	for _, count := range types {
		s.Types = append(s.Types, count)
		s.Events += count.Events
		s.Bytes += count.Bytes
	}
	slices.SortFunc(s.Types, func(a, b typeCount) int {
		return cmp.Or(cmp.Compare(b.Events, a.Events), strings.Compare(a.Type, b.Type))
	})
	for since, events := range buckets {
		s.Buckets = append(s.Buckets, bucketCount{since, events})
	}
	slices.SortFunc(s.Buckets, func(a, b bucketCount) int { return a.Since.Compare(b.Since) })
	if len(s.Buckets) > 0 {
		s.First = s.Buckets[0].Since
		span := s.Buckets[len(s.Buckets)-1].Since.Add(bucket).Sub(s.First)
		s.PerSecond = json.Number(fmt.Sprintf("%.3f", float64(s.Events)/span.Seconds()))
	}
	return s
}

// largest finds the streams with the most events, in memory for these only.
func (r *eventReader) largest(ctx context.Context, category string, top int) ([]streamCount, error) {
	if top == 0 {
		return nil, nil
	}
	var largest []streamCount
	for page, err := range r.log.Streams(ctx, category) {
		if err != nil {
			if ctx.Err() != nil {
				return nil, errors.New("interrupted while the streams were looked at; --top 0 leaves them out")
			}
			return nil, fmt.Errorf("the streams can't be read: %w", err)
		}
		largest = appendLargest(largest, page, top)
	}
	return largest, nil
}

func appendLargest(largest []streamCount, page []postgres.StreamSize, top int) []streamCount {
	for _, size := range page {
		if len(largest) < top || size.Events > largest[len(largest)-1].Events {
			largest = append(largest, streamCount{size.Stream.String(), size.Events})
			slices.SortStableFunc(largest, func(a, b streamCount) int { return cmp.Compare(b.Events, a.Events) })
			largest = largest[:min(top, len(largest))]
		}
	}
	return largest
}

// barWidth is the length of the longest bar, in characters.
const barWidth = 40

func (s *eventStats) print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(table, "%s events, %s bytes of payloads, positions %d to %d", grouped(s.Events), grouped(s.Bytes), s.After+1, s.To)
	if s.PerSecond != "" {
		fmt.Fprintf(table, ", %s a second", s.PerSecond)
	}
	fmt.Fprintf(table, "\n\nTYPE\tEVENTS\tSHARE\tBYTES EACH\n")
	for _, count := range s.Types {
		fmt.Fprintf(table, "%s\t%s\t%.1f %%\t%d\n", harmless(count.Type), grouped(count.Events), 100*float64(count.Events)/float64(s.Events), count.Bytes/count.Events)
	}
	fmt.Fprintf(table, "\nSINCE (spans of %s)\tEVENTS\t\n", s.bucket)
	most := int64(1)
	for _, bucket := range s.Buckets {
		most = max(most, bucket.Events)
	}
	for _, bucket := range s.Buckets {
		fmt.Fprintf(table, "%s\t%s\t%s\n", bucket.Since.Format(time.RFC3339), grouped(bucket.Events), strings.Repeat("#", int((bucket.Events*barWidth+most-1)/most)))
	}
	if len(s.LargestStreams) > 0 {
		fmt.Fprint(table, "\nLARGEST STREAMS\tEVENTS (all of theirs)\n")
		for _, stream := range s.LargestStreams {
			fmt.Fprintf(table, "%s\t%s\n", harmless(stream.Stream), grouped(stream.Events))
		}
	}
	return table.Flush()
}
