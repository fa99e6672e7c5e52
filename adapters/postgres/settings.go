package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"andes/quota"
	"andes/tuning"
)

var (
	settingRead  = statement("setting_read")
	settingsRead = statement("settings_read")
	settingSwap  = statement("setting_swap")
)

// Settings keeps what operators set for all instances. It is a quota.Settings, a tuning.Store and a promo.Store.
type Settings struct{ DB *DB }

var (
	_ quota.Settings = Settings{}
	_ tuning.Store   = Settings{}
)

const (
	quotaTiers = "quota.tiers"
	quotaSet   = "quota.set"
	quotaReset = "quota.reset"
)

// Tiers implements quota.Settings.
func (s Settings) Tiers(ctx context.Context) (quota.Kept, error) {
	rows, err := s.read(ctx, quotaTiers)
	row := rows[quotaTiers]
	return quota.Kept{Tiers: row.value, By: row.by, At: row.at}, err
}

// SwapTiers implements quota.Settings.
func (s Settings) SwapTiers(ctx context.Context, swap quota.Swap) (bool, error) {
	change := swapped{
		name: quotaTiers, old: swap.Old, new: swap.New, action: quotaSet, detail: swap.New, by: swap.Actor, reason: swap.Reason, at: swap.At,
	}
	if swap.New == "" {
		change.action = quotaReset
	}
	return s.swap(ctx, change)
}

// setting is a row of what is set.
type setting struct {
	value string
	by    string
	at    time.Time
}

// read gives the rows that there are, by name.
func (s Settings) read(ctx context.Context, names ...string) (map[string]setting, error) {
	rows, err := s.DB.pool.Query(ctx, settingsRead, names)
	if err != nil {
		return nil, unavailable(err)
	}
	found := make(map[string]setting, len(names))
	var name string
	var row setting
	_, err = pgx.ForEachRow(rows, []any{&name, &row.value, &row.by, &row.at}, func() error {
		row.at = row.at.UTC()
		found[name] = row
		return nil
	})
	return found, unavailable(err)
}

// swapped is a change of a setting that is made only if nobody made another one meanwhile.
type swapped struct {
	name, old, new string
	action, detail string // for the audit log
	by, reason     string
	at             time.Time
}

func (s Settings) swap(ctx context.Context, change swapped) (bool, error) {
	tag, err := s.DB.pool.Exec(ctx, settingSwap, change.name, change.new, change.by, change.at, change.action, change.reason, change.old, change.detail)
	return tag.RowsAffected() == 1, unavailable(err)
}

const (
	guardSetting = "guard." // and the system
	guardSet     = "guard.set"
	guardReset   = "guard.reset"
)

// Guards implements tuning.Store.
func (s Settings) Guards(ctx context.Context, systems []string) (map[string]tuning.Kept, error) {
	names := make([]string, len(systems))
	for i, system := range systems {
		names[i] = guardSetting + system
	}
	rows, err := s.read(ctx, names...)
	kept := make(map[string]tuning.Kept, len(rows))
	for i, system := range systems {
		if row, there := rows[names[i]]; there {
			kept[system] = tuning.Kept{Text: row.value, By: row.by, At: row.at}
		}
	}
	return kept, err
}

// SwapGuard implements tuning.Store.
func (s Settings) SwapGuard(ctx context.Context, swap tuning.Swap) (bool, error) {
	change := swapped{
		name: guardSetting + swap.System, old: swap.Old, new: swap.New, action: guardSet, detail: swap.New, by: swap.Actor, reason: swap.Reason, at: swap.At,
	}
	if swap.Reset {
		change.action = guardReset
	}
	return s.swap(ctx, change)
}
