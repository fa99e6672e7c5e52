package kafka

import (
	"context"
	"errors"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill"
)

// CorrelationID gives the correlation id of the event that the context's handler call is about, or "".
func CorrelationID(ctx context.Context) string {
	if delivery, found := Delivered(ctx); found {
		return delivery.record.Meta.CorrelationID
	}
	return ""
}

// routerLog passes on what of Watermill's logging an operator can use. What it says of each message is
// said better by the chain.
type routerLog struct{ logger *slog.Logger }

func (l routerLog) Error(what string, err error, fields watermill.LogFields) {
	if !errors.Is(err, errRedeliver) {
		l.logger.Error("watermill: "+what, "error", err, "fields", fields)
	}
}

func (l routerLog) Info(what string, fields watermill.LogFields) {
	l.logger.Debug("watermill: "+what, "fields", fields)
}

func (routerLog) Debug(string, watermill.LogFields) {}

func (routerLog) Trace(string, watermill.LogFields) {}

func (l routerLog) With(watermill.LogFields) watermill.LoggerAdapter { return l }
