package order_test

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"andes/commands/money"
	"andes/commands/order"
	"andes/commands/partner"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/reservation"
	"andes/commands/sku"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/test/memtest"
)

func gbp(t interface{ Fatalf(string, ...any) }, amount string) money.Money {
	m, err := money.Parse(amount, "GBP")
	if err != nil {
		t.Fatalf("%s: %v", amount, err)
	}
	return m
}

// shop sells A and B; C has no price, D is removed, E is priced in another currency, F is out of stock.
func shop(t memtest.T) *memtest.Store {
	s := memtest.OpenShop(t, map[string]int64{"A": 10, "B": 10, "F": 0})
	for _, name := range []string{"C", "D", "E"} {
		s.Do(t, product.Report{SKU: name, Name: name, SourceVersion: 1})
		s.Do(t, stock.Report{SKU: name, OnHand: 10, SourceVersion: 1})
	}
	s.Do(t, price.Report{List: memtest.PriceList, SKU: "D", Amount: "1.00", Currency: "GBP", SourceVersion: 1})
	s.Do(t, product.Report{SKU: "D", SourceVersion: 2, Removed: true})
	s.Do(t, price.Report{List: memtest.PriceList, SKU: "E", Amount: "1.00", Currency: "USD", SourceVersion: 1})
	return s
}

func seen(name string, quantity int64, price money.Money) order.RequestedLine {
	return order.RequestedLine{SKU: name, Quantity: quantity, UnitPrice: price}
}

func TestEveryRefusalSaysWhereAndWhy(t *testing.T) {
	line := memtest.Line
	for name, c := range map[string]struct {
		place    order.Place
		code     eventstore.Code
		problems []string // pointer and code
	}{
		"no lines":          {memtest.Order("o-1"), order.CodeOrderInvalid, []string{"/lines ORDER_INVALID"}},
		"2001 lines":        {memtest.Order("o-1", slices.Repeat([]order.RequestedLine{line("A", 1)}, 2001)...), order.CodeOrderInvalid, []string{"/lines ORDER_INVALID"}},
		"no payment token":  {with(memtest.Order("o-1", line("A", 1)), func(p *order.Place) { p.PaymentToken = "" }), order.CodeOrderInvalid, []string{"/payment/token ORDER_INVALID"}},
		"no SKU":            {memtest.Order("o-1", line("", 1)), sku.CodeInvalid, []string{"/lines/0/sku SKU_INVALID"}},
		"a SKU with spaces": {memtest.Order("o-1", line("A", 1), line("A ", 1)), sku.CodeInvalid, []string{"/lines/1/sku SKU_INVALID"}},
		"no units":          {memtest.Order("o-1", line("A", 0)), order.CodeQuantityInvalid, []string{"/lines/0/quantity QUANTITY_INVALID"}},
		"less than none":    {memtest.Order("o-1", line("A", 5), line("B", -1)), order.CodeQuantityInvalid, []string{"/lines/1/quantity QUANTITY_INVALID"}},
		"too many units":    {memtest.Order("o-1", line("A", order.MaxQuantity+1)), order.CodeQuantityInvalid, []string{"/lines/0/quantity QUANTITY_INVALID"}},
		"several at once": {memtest.Order("o-1", line("", 0), line("A", 1), line("B", -2)), order.CodeOrderInvalid,
			[]string{"/lines/0/sku SKU_INVALID", "/lines/0/quantity QUANTITY_INVALID", "/lines/2/quantity QUANTITY_INVALID"}},
		"an unknown partner":        {with(memtest.Order("o-1", line("A", 1)), func(p *order.Place) { p.Partner = "nobody" }), partner.CodeUnknown, nil},
		"another currency":          {with(memtest.Order("o-1", line("A", 1)), func(p *order.Place) { p.Currency = "USD" }), order.CodeCurrencyMismatch, []string{"/currency CURRENCY_MISMATCH"}},
		"no currency":               {with(memtest.Order("o-1", line("A", 1)), func(p *order.Place) { p.Currency = "" }), order.CodeCurrencyMismatch, []string{"/currency CURRENCY_MISMATCH"}},
		"an unknown SKU":            {memtest.Order("o-1", line("A", 1), line("Z", 1)), order.CodeUnknownSKU, []string{"/lines/1/sku UNKNOWN_SKU"}},
		"the same in lower case":    {memtest.Order("o-1", line("a", 1)), order.CodeUnknownSKU, []string{"/lines/0/sku UNKNOWN_SKU"}},
		"a removed product":         {memtest.Order("o-1", line("D", 1)), order.CodeUnknownSKU, []string{"/lines/0/sku UNKNOWN_SKU"}},
		"a product without a price": {memtest.Order("o-1", line("C", 1)), order.CodeNoPrice, []string{"/lines/0/sku PRICE_UNKNOWN"}},
		"a price in other currency": {memtest.Order("o-1", line("E", 1)), order.CodeNoPrice, []string{"/lines/0/sku PRICE_UNKNOWN"}},
		"a price that was not seen": {memtest.Order("o-1", seen("A", 1, gbp(t, "2.54"))), order.CodePriceMismatch, []string{"/lines/0/unitPrice/amount PRICE_MISMATCH"}},
		"a price seen in dollars":   {memtest.Order("o-1", seen("A", 1, money.Money{Minor: 255, Currency: "USD"})), order.CodeCurrencyMismatch, []string{"/lines/0/unitPrice/currency CURRENCY_MISMATCH"}},
		"unknown and unpriced":      {memtest.Order("o-1", line("Z", 1), line("C", 1)), order.CodeOrderInvalid, []string{"/lines/0/sku UNKNOWN_SKU", "/lines/1/sku PRICE_UNKNOWN"}},
		"not enough stock":          {memtest.Order("o-1", line("A", 6), line("F", 1), line("A", 5)), reservation.CodeInsufficientStock, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := shop(t)
			refusal := s.Refused(t, c.place, c.code)
			var problems []string
			for _, p := range refusal.Problems {
				problems = append(problems, p.Pointer+" "+string(p.Code))
				if p.Detail == "" {
					t.Errorf("%s has no detail", p.Pointer)
				}
			}
			if !slices.Equal(problems, c.problems) {
				t.Errorf("problems %v, want %v", problems, c.problems)
			}
		})
	}
}

func with(place order.Place, change func(*order.Place)) order.Place {
	change(&place)
	return place
}

func TestAnOrderIsPricedLineByLineAndAddsUp(t *testing.T) {
	s := shop(t)
	place := memtest.Order("o-1", memtest.Line("A", 2), seen("B", 3, gbp(t, "2.55")), memtest.Line("A", 3))
	place.PartnerRef, place.Customer = "536365", order.Customer{Name: "Ada", Email: "ada@example.test"}
	got := s.Do(t, place).(order.State)
	if got.Status != order.PendingPayment || got.Total != gbp(t, "20.40") || len(got.Lines) != 3 || got.PartnerRef != "536365" || !got.PlacedAt.Equal(s.Now) {
		t.Errorf("order %+v", got)
	}
	for i, amount := range []string{"5.10", "7.65", "7.65"} {
		if got.Lines[i].Amount != gbp(t, amount) || got.Lines[i].UnitPrice != gbp(t, "2.55") {
			t.Errorf("line %d: %+v", i, got.Lines[i])
		}
	}
	held, _ := memtest.State(t, s, reservation.Aggregate, "o-1")
	if want := []reservation.Line{{SKU: "A", Quantity: 5}, {SKU: "B", Quantity: 3}}; held.Status != reservation.Held || !slices.Equal(held.Lines, want) {
		t.Errorf("reservation %+v", held)
	}
	s.CheckFolds(t)
}

func TestAnOrdersStateHoldsNoPersonalDataAndNoToken(t *testing.T) {
	s := shop(t)
	place := memtest.Order("o-1", memtest.Line("A", 1))
	place.PaymentToken = "tok_s3cret"
	place.Customer = order.Customer{Name: "s3cret", Email: "s3cret", Phone: "s3cret", Address: "s3cret"}
	s.Do(t, place)
	stream := order.Aggregate.Stream("o-1")
	states, err := s.States(t.Context(), []eventstore.Stream{stream})
	if err != nil || strings.Contains(string(states[stream].State), "s3cret") {
		t.Errorf("state %s, %v", states[stream].State, err)
	}
	for _, record := range s.Log(t) {
		declaration, _ := s.Registry.Declaration(record.Type)
		redacted, _, err := declaration.Redact(record.Data)
		if err != nil || strings.Contains(string(redacted), "s3cret") {
			t.Errorf("%s is redacted to %s, %v", record.Type, redacted, err)
		}
	}
}

func TestTheDiscountedPriceIsThePriceThatWasSeen(t *testing.T) {
	s := shop(t)
	s.Do(t, partner.Configure{Partner: partner.State{ID: memtest.Partner, Tier: "gold", Policy: partner.Policy{
		PriceList: memtest.PriceList, Currency: "GBP", Discounts: []partner.Discount{{Segment: "toys", Percent: "10"}},
	}}})
	s.Refused(t, memtest.Order("o-1", seen("A", 1, gbp(t, "2.55"))), order.CodePriceMismatch)
	got := s.Do(t, memtest.Order("o-1", seen("A", 3, gbp(t, "2.30")))).(order.State) // 2.295, half to even
	if got.Total != gbp(t, "6.90") {
		t.Errorf("total %s", got.Total)
	}
}

func TestTheChannelSellsNoMoreThanItShows(t *testing.T) {
	s := shop(t)
	s.Do(t, partner.Configure{Partner: partner.State{ID: memtest.Partner, Tier: "gold", Policy: partner.Policy{
		PriceList: memtest.PriceList, Currency: "GBP", SafetyBuffer: 4, VisibleCap: 5,
	}}})
	refusal := s.Refused(t, memtest.Order("o-1", memtest.Line("A", 6)), reservation.CodeInsufficientStock)
	if got := refusal.Extra["shortages"].([]reservation.Shortage); got[0].Available != 5 {
		t.Errorf("shortages %v", got)
	}
	s.Do(t, memtest.Order("o-1", memtest.Line("A", 5)))
	s.Do(t, memtest.Order("o-2", memtest.Line("A", 1)))
	s.Refused(t, memtest.Order("o-3", memtest.Line("A", 1)), reservation.CodeInsufficientStock)
}

func TestAReferenceOfThePartnerIsUsedOnce(t *testing.T) {
	s := shop(t)
	place := with(memtest.Order("o-1", memtest.Line("A", 1)), func(p *order.Place) { p.PartnerRef = "536365" })
	s.Do(t, place)
	place.Lines = []order.RequestedLine{memtest.Line("B", 2)}
	if refusal := s.Refused(t, place, order.CodeDuplicateReference); refusal.Extra["orderId"] != "o-1" {
		t.Errorf("refusal %+v", refusal)
	}
	s.Do(t, order.Cancel{OrderID: "o-1", Reason: order.CancelledByPartner})
	s.Refused(t, place, order.CodeDuplicateReference)
}

// One batch is one transaction: of orders that arrive together each sees what those before it took.
func TestTheLastUnitIsSoldOnce(t *testing.T) {
	const buyers = 100
	s := memtest.OpenShop(t, map[string]int64{"A": 1})
	requests := make([]eventstore.Request, buyers)
	for i := range requests {
		requests[i].Command = memtest.Order(fmt.Sprint("o-", i), memtest.Line("A", 1))
	}
	batch := eventstore.NewBatch(s.Registry, s.Now, s.NewID, requests)
	states, err := s.States(t.Context(), batch.Needs())
	if err != nil {
		t.Fatal(err)
	}
	for _, stream := range batch.Needs() {
		batch.Supply(stream, eventstore.Snapshot{Version: states[stream].Version, State: states[stream].State})
	}
	if _, complete := batch.Decide(); !complete {
		t.Fatalf("the batch still needs %v", batch.Needs())
	}
	won := 0
	for i := range requests {
		_, err := batch.Outcome(i, 0)
		if err == nil {
			won++
		} else if eventstore.CodeOf(err) != reservation.CodeInsufficientStock {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d orders got the last unit", won)
	}
}

func TestATotalThatIsTooLargeIsRefused(t *testing.T) {
	s := shop(t)
	s.Do(t, price.Report{List: memtest.PriceList, SKU: "A", Amount: "1000000000000000.00", Currency: "GBP", SourceVersion: 9})
	s.Do(t, stock.Report{SKU: "A", OnHand: 1000, SourceVersion: 9})
	line := s.Refused(t, memtest.Order("o-1", memtest.Line("A", 10)), order.CodeTotalTooLarge)
	if line.Problems[0].Pointer != "/lines/0/quantity" {
		t.Errorf("problems %+v", line.Problems)
	}
	sum := s.Refused(t, memtest.Order("o-1", memtest.Line("A", 6), memtest.Line("A", 6)), order.CodeTotalTooLarge)
	if sum.Problems[0].Pointer != "/lines" {
		t.Errorf("problems %+v", sum.Problems)
	}
	s.Do(t, memtest.Order("o-1", memtest.Line("A", 9)))
	s.Do(t, order.Cancel{OrderID: "o-1"}) // the order can still be read
}

func TestATotalIsTheSumOfItsLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prices := map[string]int64{}
		s := memtest.OpenShop(t, map[string]int64{"A": 1 << 40, "B": 1 << 40, "C": 1 << 40})
		for _, name := range []string{"A", "B", "C"} {
			unit := money.Money{Minor: rapid.Int64Range(1, 10_000_000).Draw(t, "price"), Currency: "GBP"}
			prices[name] = unit.Minor
			s.Do(t, price.Report{List: memtest.PriceList, SKU: name, Amount: unit.Amount(), Currency: "GBP", SourceVersion: 2})
		}
		lines := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) order.RequestedLine {
			return memtest.Line(rapid.SampledFrom([]string{"A", "B", "C"}).Draw(t, "sku"), rapid.Int64Range(1, order.MaxQuantity).Draw(t, "quantity"))
		}), 1, 20).Draw(t, "lines")
		want := new(big.Int)
		for _, line := range lines {
			want.Add(want, new(big.Int).Mul(big.NewInt(prices[line.SKU]), big.NewInt(line.Quantity)))
		}
		got := s.Do(t, memtest.Order("o-1", lines...)).(order.State)
		if want.Cmp(big.NewInt(got.Total.Minor)) != 0 {
			t.Fatalf("total %s, want %s", got.Total, want)
		}
	})
}
