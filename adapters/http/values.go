package httpapi

import (
	"time"

	"github.com/danielgtaylor/huma/v2"

	"andes/commands/money"
	"andes/commands/order"
	"andes/commands/sku"
	"andes/eventstore"
)

// The values of which bodies are made. Each carries its schema, and with it the code of its faults.

func bounded(schema huma.Schema, code eventstore.Code, from, to int) *huma.Schema {
	low, high := float64(from), float64(to)
	if schema.Type == huma.TypeInteger {
		schema.Minimum, schema.Maximum = &low, &high
	} else {
		schema.MinLength, schema.MaxLength = &from, &to
	}
	if code != "" {
		schema.Extensions = map[string]any{codeOf: string(code)}
	}
	return &schema
}

// skuText is a SKU in an order.
type skuText string

// Schema implements huma.SchemaProvider.
func (skuText) Schema(huma.Registry) *huma.Schema {
	return bounded(huma.Schema{Type: huma.TypeString, Description: "A SKU, exactly as the catalogue has it", Examples: []any{"85123A"}}, sku.CodeInvalid, 1, sku.MaxCharacters)
}

// askedSKU is any text that may be a SKU: a question about one that is none is answered "not found".
type askedSKU string

// Schema implements huma.SchemaProvider.
func (askedSKU) Schema(huma.Registry) *huma.Schema {
	return bounded(huma.Schema{Type: huma.TypeString, Examples: []any{"85123A"}}, sku.CodeInvalid, 0, maxAskedSKU)
}

// maxAskedSKU bounds the text that is repeated under notFound.
const maxAskedSKU = 256

// quantity is how many units.
type quantity int64

// Schema implements huma.SchemaProvider.
func (quantity) Schema(huma.Registry) *huma.Schema {
	return bounded(huma.Schema{Type: huma.TypeInteger, Format: "int64", Description: "A whole number, written in digits", Examples: []any{6}}, order.CodeQuantityInvalid, 1, order.MaxQuantity)
}

// currencyText is an ISO 4217 code.
type currencyText string

// Schema implements huma.SchemaProvider.
func (currencyText) Schema(huma.Registry) *huma.Schema {
	return bounded(huma.Schema{Type: huma.TypeString, Pattern: "^[A-Z]{3}$", Description: "ISO 4217", Examples: []any{"GBP"}}, CodeCurrencyInvalid, 3, 3)
}

// amountText is a decimal amount.
type amountText string

// Schema implements huma.SchemaProvider.
func (amountText) Schema(huma.Registry) *huma.Schema {
	return bounded(huma.Schema{Type: huma.TypeString, Pattern: `^-?[0-9]+(\.[0-9]+)?$`, Description: "A decimal with no more decimals than its currency has", Examples: []any{"2.55"}}, CodeAmountInvalid, 1, 24)
}

// moneyBody is an amount of money.
type moneyBody struct {
	Amount   amountText   `json:"amount"`
	Currency currencyText `json:"currency"`
}

// parse gives the money, or what is wrong with it at the pointer.
func (m moneyBody) parse(at string) (money.Money, []eventstore.Problem) {
	if m == (moneyBody{}) {
		return money.Money{}, nil
	}
	if _, known := money.Exponent(string(m.Currency)); !known {
		return money.Money{}, []eventstore.Problem{{Pointer: at + "/currency", Code: CodeCurrencyInvalid, Detail: money.ErrCurrency.Error()}}
	}
	parsed, err := money.Parse(string(m.Amount), string(m.Currency))
	if err != nil {
		return money.Money{}, []eventstore.Problem{{Pointer: at + "/amount", Code: CodeAmountInvalid, Detail: err.Error()}}
	}
	return parsed, nil
}

func moneyOf(m money.Money) moneyBody {
	return moneyBody{Amount: amountText(m.Amount()), Currency: currencyText(m.Currency)}
}

// stampFormat is RFC 3339 in UTC with milliseconds.
const stampFormat = "2006-01-02T15:04:05.000Z"

// stamp is a time in answers.
type stamp time.Time

// Schema implements huma.SchemaProvider.
func (stamp) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time", Description: "RFC 3339, UTC, with milliseconds", Examples: []any{"2026-03-01T12:00:00.000Z"}}
}

// MarshalText implements encoding.TextMarshaler.
func (s stamp) MarshalText() ([]byte, error) {
	return time.Time(s).UTC().AppendFormat(nil, stampFormat), nil
}
