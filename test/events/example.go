package events

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"andes/commands/money"
)

// texts are examples for fields by their JSON names.
var texts = map[string]string{
	"id":              "0198f2a4-7d02-7c44-a6a1-4b0f5e7d9c12",
	"orderId":         "0198f2a4-7c11-7d3e-9a58-2f6f0a1c4b7d",
	"correlationId":   "0198f2a4-7c0f-7b21-8d11-5f1f6f0a9e33",
	"cause":           "0198f2a4-7c55-7a10-b1c7-9d3b7a0f2c61",
	"partner":         "acme",
	"partnerOrderRef": "536365",
	"sku":             "85123A",
	"name":            "White hanging heart T-light holder",
	"segment":         "decoration",
	"email":           "ada@example.test",
	"phone":           "+44 20 7946 0000",
	"address":         "12 St James's Square, London",
	"paymentToken":    "tok_visa",
	"token":           "tok_visa",
	"chargeId":        "ch_1",
	"refundId":        "re_1",
	"omsId":           "OMS-1001",
	"tier":            "gold",
	"priceList":       "retail",
	"currency":        "GBP",
	"percent":         "12.5",
	"url":             "https://partner.example/webhooks",
	"types":           "order.placed",
	"secret":          "whsec_ZXhhbXBsZSBvZiBhIHNlY3JldCwgMjQgYnl0ZXM=",
	"reason":          "CANCELLED_BY_PARTNER",
}

// figures are the same for whole numbers, and amounts for money.
var (
	figures = map[string]int64{"quantity": 6, "onHand": 120, "sourceVersion": 7, "stockVersion": 8, "safetyBuffer": 2, "visibleCap": 50}
	amounts = map[string]int64{"unitPrice": 255, "price": 255, "amount": 1530, "total": 1530}
	moment  = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
)

// example fills every field of a type, so that a golden file shows each of them.
func example(t reflect.Type) reflect.Value {
	value := reflect.New(t).Elem()
	fill(value, "")
	return value
}

func fill(value reflect.Value, name string) {
	switch value.Type() {
	case timeType:
		value.Set(reflect.ValueOf(moment))
		return
	case moneyType:
		value.Set(reflect.ValueOf(money.Money{Minor: amounts[name], Currency: "GBP"}))
		return
	}
	switch value.Kind() {
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		fill(value.Elem(), name)
	case reflect.String:
		value.SetString("text")
		if text, known := texts[name]; known {
			value.SetString(text)
		}
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		value.SetInt(max(1, figures[name]))
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 1, 1))
		fill(value.Index(0), name)
	case reflect.Map:
		element := reflect.New(value.Type().Elem()).Elem()
		fill(element, name)
		value.Set(reflect.MakeMap(value.Type()))
		value.SetMapIndex(reflect.ValueOf("key").Convert(value.Type().Key()), element)
	case reflect.Struct:
		for i := range value.NumField() {
			member, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
			fill(value.Field(i), member)
		}
	default:
		panic(fmt.Sprintf("no example of %s", value.Type()))
	}
}
