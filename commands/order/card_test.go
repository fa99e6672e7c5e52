package order_test

import (
	"errors"
	"strings"
	"testing"

	"andes/commands/order"
	"andes/eventstore"
	"andes/test/memtest"
)

func TestACardNumberIsNoPaymentToken(t *testing.T) {
	for _, token := range []string{
		"4111111111111111", "4111 1111 1111 1111", "4111-1111-1111-1111", "4111.1111.1111.1111", " 4111111111111111 ", "5500005555555559",
		"378282246310005", "3782-822463-10005", "6304000000000000", "4222222222222", "6011000990139424124", "501800000009",
	} {
		place := memtest.Order("o-1", memtest.Line("A", 1))
		place.PaymentToken = token
		_, err := shop(t).Execute(t.Context(), eventstore.Request{Command: place})
		refusal, refused := errors.AsType[*eventstore.Refusal](err)
		if !refused || refusal.Code != order.CodePaymentTokenInvalid || len(refusal.Problems) != 1 || refusal.Problems[0].Pointer != "/payment/token" {
			t.Errorf("%s: %v", token, err)
			continue
		}
		if strings.Contains(refusal.Error()+refusal.Detail+refusal.Problems[0].Detail, strings.TrimSpace(token)) {
			t.Errorf("the refusal tells %s", token)
		}
	}
}

func TestATokenIsNotTakenForACardNumber(t *testing.T) {
	for _, token := range []string{
		"tok_visa", "t", "4111111111111112", "41111111111", "41111111111111111111115", "tok_4111111111111111", "4111x1111x1111x1111",
	} {
		place := memtest.Order("o-1", memtest.Line("A", 1))
		place.PaymentToken = token
		if _, err := shop(t).Execute(t.Context(), eventstore.Request{Command: place}); err != nil {
			t.Errorf("%s: %v", token, err)
		}
	}
}
