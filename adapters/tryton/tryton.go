// Package tryton is the ERP, the WMS and the OMS where these are a Tryton 6: the only code that talks to it.
// It brings what adapters/erp, adapters/wms and adapters/oms need of a system, each over a guard of its own.
//
//	Client ──► Catalogue ──► Products, Prices    polling.Source for adapters/erp
//	       ──► Warehouse ──► Stock, Shipments    polling.Source for adapters/wms
//	       ──► Sales     ──► Find, Post, Cancel  the registry of adapters/oms
//
// Tryton keeps no change feed and no versions. A feed is made of what it has:
//
//   - Rows have a create_date and, once they were written, a write_date: when the transaction began. What
//     changed is found by both, and read from the record itself; a row only says where to look.
//   - A transaction that commits late has stamps from before others that were read already. polling.Changes
//     reads the last moments again.
//   - A record's content depends on more rows than one, so no stamp can be its version. What was read is
//     compared with what Andes has, and gets a higher version exactly if it differs. There is one poller of a
//     feed at a time, and it reads after what it compares with, so a later version is a later reading.
//   - What no stamp tells of (a row that was deleted, a stock move dated tomorrow, a change past Tryton's own
//     code) a comparison finds that goes through everything, a page a poll.
package tryton

import (
	"context"
	"time"
)

// Bounds of what is read.
const (
	DefaultPageSize     = 100 // Tryton takes a quarter of a second to price as many
	DefaultCompareEvery = 10 * time.Minute
	DefaultOverlap      = 5 * time.Second

	// Records become visible up to lookback late, in a long transaction, and are found within lookbackEvery.
	lookback      = 10 * time.Minute
	lookbackEvery = time.Minute

	// maxRelated bounds how many price lists, warehouses and the like are read at once.
	maxRelated = 200
)

// settings is the context of a call: what Tryton's functions depend on beside their arguments.
type settings map[string]any

// with adds to the settings.
func (s settings) with(name string, value any) settings {
	more := settings{name: value}
	for name, value := range s {
		more[name] = value
	}
	return more
}

// company is whose records are read: the one of the user.
type company struct {
	id       int64
	currency string
}

// company asks for the user's company, once.
func (c *Client) companyOf(ctx context.Context) (company, error) {
	c.access.mu.Lock()
	known := c.access.company
	c.access.mu.Unlock()
	if known.id != 0 {
		return known, nil
	}
	var preferences struct {
		Company *int64 `json:"company"`
	}
	if err := c.call(ctx, reading, "model.res.user.get_preferences", &preferences, true, settings{}); err != nil {
		return company{}, err
	}
	if preferences.Company == nil {
		return company{}, errNoCompany
	}
	with := settings{"company": *preferences.Company}
	var found []fields
	if err := c.call(ctx, reading, "model.company.company.read", &found, []int64{*preferences.Company}, []string{"currency.code"}, with); err != nil {
		return company{}, err
	}
	if len(found) != 1 {
		return company{}, errNoCompany
	}
	if err := found[0].read(map[string]any{"id": &known.id, "currency.code": &known.currency}); err != nil {
		return company{}, err
	}
	c.access.mu.Lock()
	defer c.access.mu.Unlock()
	c.access.company = known
	return known, nil
}

// settings are those of every call: without the company, prices and quantities are null.
func (c company) settings() settings { return settings{"company": c.id} }

// all are the settings with which inactive records are found, too.
func (c company) all() settings { return c.settings().with("active_test", false) }
