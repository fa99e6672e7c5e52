package reads

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"andes/test/lab/money"
	"andes/test/load"
)

// Names of the streams.
const (
	stockStream  = "stock"
	priceStream  = "price"
	goldStream   = "gold"
	bronzeStream = "bronze"
)

// reader knows how one side is read. The streams that it makes have no rate yet.
type reader struct {
	stock, price func(skus int) load.Stream
}

// asIsReader asks the systems themselves, one SKU a call, as channels do without Andes.
func asIsReader(c catalogue, systems *simulators) reader {
	wms, erp := systems.entries["wms"].URL, systems.entries["erp"].URL
	return reader{
		stock: func(int) load.Stream {
			return load.Stream{
				Name: stockStream,
				Next: func(n uint64) load.Target {
					return load.Target{Method: http.MethodGet, URL: wms + "/stock/" + url.PathEscape(c.pick(n, 1)[0])}
				},
				Judge: func(_ int, body []byte) load.Verdict {
					var got struct {
						SKU    string `json:"sku"`
						OnHand int64  `json:"onHand"`
					}
					return judged(json.Unmarshal(body, &got) == nil && c.holds(got.SKU, got.OnHand))
				},
			}
		},
		price: func(int) load.Stream {
			return load.Stream{
				Name: priceStream,
				Next: func(n uint64) load.Target {
					return load.Target{Method: http.MethodGet, URL: erp + "/prices/" + priceList + "/" + url.PathEscape(c.pick(n, 1)[0])}
				},
				Judge: func(_ int, body []byte) load.Verdict {
					var got struct {
						SKU    string `json:"sku"`
						Amount string `json:"amount"`
					}
					return judged(json.Unmarshal(body, &got) == nil && c.costs(got.SKU, got.Amount))
				},
			}
		},
	}
}

func judged(right bool) load.Verdict {
	if right {
		return load.Verdict{Outcome: load.Right}
	}
	return load.Verdict{Outcome: load.Wrong}
}

func (c catalogue) holds(sku string, units int64) bool {
	want, known := c.stock[sku]
	return known && units == want
}

// costs compares amounts, not texts: an ERP may write more decimals.
func (c catalogue) costs(sku, amount string) bool {
	got, errGot := money.Parse(amount)
	want, errWant := money.Parse(c.prices[sku])
	return errGot == nil && errWant == nil && got == want
}

// toBeReader asks Andes, as a partner.
func toBeReader(c catalogue, base, token string) reader {
	header := http.Header{"Authorization": {"Bearer " + token}}
	ask := func(path string, skus int) func(n uint64) load.Target {
		return func(n uint64) load.Target {
			names := c.pick(n, skus)
			for i, name := range names {
				names[i] = url.QueryEscape(name)
			}
			return load.Target{Method: http.MethodGet, URL: base + path + "?sku=" + strings.Join(names, ","), Header: header}
		}
	}
	return reader{
		stock: func(skus int) load.Stream {
			return load.Stream{Name: stockStream, Next: ask("/v1/stock", skus), Judge: func(_ int, body []byte) load.Verdict {
				var got stockAnswer
				if json.Unmarshal(body, &got) != nil || len(got.Items) != skus {
					return load.Verdict{Outcome: load.Wrong}
				}
				right, stale := true, false
				for _, item := range got.Items {
					right = right && c.holds(item.SKU, item.Available)
					stale = stale || item.Stale
				}
				verdict := judged(right)
				verdict.Stale = stale
				return verdict
			}}
		},
		price: func(skus int) load.Stream {
			return load.Stream{Name: priceStream, Next: ask("/v1/prices", skus), Judge: func(_ int, body []byte) load.Verdict {
				var got priceAnswer
				if json.Unmarshal(body, &got) != nil || len(got.Items) != skus {
					return load.Verdict{Outcome: load.Wrong}
				}
				right, stale := true, false
				for _, item := range got.Items {
					right = right && c.costs(item.SKU, item.Price.Amount)
					stale = stale || item.Stale
				}
				verdict := judged(right)
				verdict.Stale = stale
				return verdict
			}}
		},
	}
}

// stockAnswer is what is looked at of Andes's answer.
type stockAnswer struct {
	Items []struct {
		SKU       string `json:"sku"`
		Available int64  `json:"available"`
		Stale     bool   `json:"stale"`
	} `json:"items"`
}

type priceAnswer struct {
	Items []struct {
		SKU   string `json:"sku"`
		Price struct {
			Amount string `json:"amount"`
		} `json:"price"`
		Stale bool `json:"stale"`
	} `json:"items"`
}
