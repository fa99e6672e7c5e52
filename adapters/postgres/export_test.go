package postgres

import "context"

// TryToWrite does what the log's connection must refuse.
func (l *Log) TryToWrite(ctx context.Context) error {
	_, err := l.conn.Exec(ctx, "INSERT INTO checkpoints (name, shard, position) VALUES ('x', 0, 0)")
	return err
}
