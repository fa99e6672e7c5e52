package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"andes/quota"
)

var (
	settingRead  = statement("setting_read")
	settingWrite = statement("setting_write")
)

// Settings keeps what operators set for all instances. It implements quota.Settings.
type Settings struct{ DB *DB }

var _ quota.Settings = Settings{}

const (
	quotaTiers    = "quota.tiers"
	quotaTiersSet = "quota.set"
)

// Tiers implements quota.Settings.
func (s Settings) Tiers(ctx context.Context) (string, error) {
	var value string
	err := s.DB.pool.QueryRow(ctx, settingRead, quotaTiers).Scan(&value)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return value, unavailable(err)
}

// SetTiers implements quota.Settings.
func (s Settings) SetTiers(ctx context.Context, change quota.Change) error {
	_, err := s.DB.pool.Exec(ctx, settingWrite, quotaTiers, change.Tiers, change.Actor, change.At, quotaTiersSet, change.Reason)
	return unavailable(err)
}
