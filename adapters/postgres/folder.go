package postgres

import (
	"context"

	"andes/eventstore"
	"andes/rebuild"
)

// foldedAfter gives the states folded from the events of the streams behind a key. Events come stream by
// stream, so one fold is open at a time.
func (db *DB) foldedAfter(ctx context.Context, category, after string, take func([]eventstore.StateRecord, []rebuild.Broken) error) error {
	f := &folder{registry: db.registry, category: category, take: take}
	stream, version := category+"/", int64(0)
	if after != "" {
		stream, version = category+"/"+after, behindAllVersions
	}
	end := category + "0" // the character behind the slash
	for {
		rows, err := db.pool.Query(ctx, readCategory, stream, version, end, eventsPerPage)
		records, err := collectRecords(rows, err)
		if err != nil {
			return err
		}
		for _, record := range records {
			if err := f.add(record); err != nil {
				return err
			}
			stream, version = record.Stream.String(), record.Version
		}
		if len(records) < eventsPerPage {
			return f.end()
		}
	}
}

// folder folds one stream after the other and hands over what is complete. A stream with an event that
// can't be read is told about and left out.
type folder struct {
	registry *eventstore.Registry
	category string
	take     func([]eventstore.StateRecord, []rebuild.Broken) error

	stream  eventstore.Stream
	folding *eventstore.Folding // nil: no stream, or a broken one
	batch   []eventstore.StateRecord
	broken  []rebuild.Broken
	size    int
}

func (f *folder) add(record eventstore.Record) (err error) {
	if record.Stream != f.stream {
		if err := f.complete(); err != nil {
			return err
		}
		if f.folding, err = f.registry.Folding(f.category); err != nil {
			return err
		}
		f.stream = record.Stream
	}
	if f.folding == nil {
		return nil
	}
	if err := f.folding.Add(record); err != nil {
		f.giveUp(err)
	}
	return nil
}

func (f *folder) giveUp(why error) {
	f.broken = append(f.broken, rebuild.Broken{Where: "events of " + f.stream.String(), Why: why.Error()})
	f.folding = nil
}

// complete closes the fold of a stream.
func (f *folder) complete() error {
	if f.folding == nil {
		return nil
	}
	state, err := f.folding.State()
	if err != nil {
		f.giveUp(err)
		return nil
	}
	f.folding = nil
	f.batch, f.size = append(f.batch, state), f.size+len(state.State)
	if len(f.batch) < maxStates && f.size < bytesPerPage {
		return nil
	}
	return f.flush()
}

func (f *folder) flush() error {
	full, broken := f.batch, f.broken
	f.batch, f.broken, f.size = nil, nil, 0
	if len(full)+len(broken) == 0 {
		return nil
	}
	return f.take(full, broken)
}

func (f *folder) end() error {
	if err := f.complete(); err != nil {
		return err
	}
	return f.flush()
}
