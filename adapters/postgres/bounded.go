package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// bounded ends every statement and every pipeline that has no answer within answerLimit, and with it the
// connection. It sits in the tracer because that sees them all. The wait for a notification is not one.
type bounded struct{}

type endOfWait struct{}

func (bounded) begin(ctx context.Context) context.Context {
	limited, cancel := context.WithTimeout(ctx, answerLimit)
	return context.WithValue(limited, endOfWait{}, cancel)
}

func (bounded) end(ctx context.Context) {
	if cancel, begun := ctx.Value(endOfWait{}).(context.CancelFunc); begun {
		cancel()
	}
}

// TraceQueryStart implements pgx.QueryTracer.
func (b bounded) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return b.begin(ctx)
}

// TraceQueryEnd implements pgx.QueryTracer.
func (b bounded) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) { b.end(ctx) }

// TraceBatchStart implements pgx.BatchTracer.
func (b bounded) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return b.begin(ctx)
}

// TraceBatchQuery implements pgx.BatchTracer.
func (bounded) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (b bounded) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchEndData) { b.end(ctx) }

// ping tells whether the connection is alive, within a bounded time.
func ping(ctx context.Context, conn *pgx.Conn) error {
	limited, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	return conn.Ping(limited)
}
