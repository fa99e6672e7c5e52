package tryton

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Cancel takes the order's sale back, as far as its goods are still on the shelf.
//
//	draft, quotation ──cancel──► cancelled
//	confirmed ──draft──► draft
//	processing: its shipments are cancelled, if none is picked, packed or done ──► exception
//	exception ──what was not shipped is not shipped again──► done, with nothing shipped
//
// Each step is found to be done already when the whole is repeated.
func (s *Sales) Cancel(ctx context.Context, orderID string) (found, inTime bool, err error) {
	leave, err := s.turns.enter(ctx, orderID)
	if err != nil {
		return false, false, err
	}
	defer leave()
	company, err := s.Client.companyOf(ctx)
	if err != nil {
		return false, false, err
	}
	for range progress { // each round brings it at least a step on
		sales, err := s.lookUp(ctx, company, orderID)
		if err != nil || len(sales) == 0 {
			return false, false, err
		}
		ended, inTime, err := s.back(ctx, company, sales[0])
		if err != nil || ended {
			return true, inTime, err
		}
	}
	return true, false, errors.New("tryton: the sale can't be cancelled")
}

// back takes one step back.
func (s *Sales) back(ctx context.Context, company company, sale sale) (ended, inTime bool, err error) {
	switch sale.State {
	case cancelled:
		return true, true, nil
	case draft, quotation:
		return false, false, s.button(ctx, company, "model.sale.sale.cancel", sale.ID)
	case confirmed:
		return false, false, s.button(ctx, company, "model.sale.sale.draft", sale.ID)
	}
	var open []int64
	for _, shipment := range sale.Shipments {
		switch shipment.State {
		case cancelled:
		case draft, "waiting", "assigned":
			open = append(open, shipment.ID)
		default: // picked, packed, done
			return true, false, nil
		}
	}
	switch {
	case len(open) > 0:
		return false, false, s.button(ctx, company, "model.stock.shipment.out.cancel", open...)
	case len(sale.Shipments) == 0:
		return true, false, nil // it is carried out in a way that has no shipments
	case sale.State == done:
		return true, true, nil
	}
	return false, false, s.giveUp(ctx, company, sale)
}

// giveUp tells Tryton not to ship again what was not shipped. A wizard is the only way to do that.
func (s *Sales) giveUp(ctx context.Context, company company, sale sale) error {
	const wizard = "wizard.sale.handle.shipment.exception."
	var lines []struct {
		Moves []int64 `json:"moves"`
	}
	err := s.Client.call(ctx, reading, "model.sale.line.search_read", &lines,
		domain{term("sale", "=", sale.ID)}, 0, maxLines, nil, []string{"moves"}, company.settings())
	if err != nil {
		return err
	}
	var moves []int64
	for _, line := range lines {
		moves = append(moves, line.Moves...)
	}
	slices.Sort(moves)
	with := company.settings().with("active_model", "sale.sale").with("active_id", sale.ID).with("active_ids", []int64{sale.ID})
	var begun []any // session, first and last state
	if err := s.Client.call(ctx, writing, wizard+"create", &begun, with); err != nil {
		return err
	}
	if len(begun) == 0 {
		return fmt.Errorf("%screate: tryton: the answer holds no session", wizard)
	}
	answer := map[string]any{"ask": map[string]any{"recreate_moves": []int64{}, "domain_moves": moves}}
	if err := s.Client.call(ctx, writing, wizard+"execute", nil, begun[0], answer, "handle", with); err != nil {
		return err
	}
	return s.Client.call(ctx, writing, wizard+"delete", nil, begun[0], with)
}

// maxLines bounds the lines of a sale.
const maxLines = 1000
