package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"andes/test/lab/erp"
)

// lists are the two lists of an answer about stock or prices.
type lists struct {
	Items []struct {
		SKU       string
		Available int64
		Price     struct{ Amount string }
	}
	NotFound []string
}

// changesPage is what a page of changes says.
type changesPage struct {
	Stock, Prices lists
	NextCursor    string
	Resync        bool
}

// copyist keeps a copy of what a partner sees, by the feed of changes.
type copyist struct {
	partner *client
	skus    []string

	mu       sync.Mutex
	cursor   string
	stock    map[string]int64
	price    map[string]string
	begun    int // how often it had to read everything
	streams  int
	pages    int
	problems []string
}

func (s *scene) copyist() *copyist {
	return &copyist{partner: s.partner, skus: slices.Sorted(maps.Keys(s.stock)), stock: map[string]int64{}, price: map[string]string{}}
}

// readAll reads what GET answers now.
func (c *copyist) readAll() (map[string]int64, map[string]string, error) {
	stock, price := map[string]int64{}, map[string]string{}
	for path, take := range map[string]func(lists){"/v1/stock": func(l lists) { takeStock(stock, l) }, "/v1/prices": func(l lists) { takePrices(price, l) }} {
		got, err := c.partner.do(http.MethodGet, path+"?"+url.Values{"sku": c.skus}.Encode(), nil)
		if err == nil && got.status != http.StatusOK {
			err = fmt.Errorf("%s: %d %s", path, got.status, got.body)
		}
		var answer lists
		if err == nil {
			err = json.Unmarshal(got.body, &answer)
		}
		if err != nil {
			return nil, nil, err
		}
		take(answer)
	}
	return stock, price, nil
}

func takeStock(stock map[string]int64, l lists) {
	for _, item := range l.Items {
		stock[item.SKU] = item.Available
	}
	for _, sku := range l.NotFound {
		delete(stock, sku)
	}
}

func takePrices(price map[string]string, l lists) {
	for _, item := range l.Items {
		price[item.SKU] = item.Price.Amount
	}
	for _, sku := range l.NotFound {
		delete(price, sku)
	}
}

// apply takes one page. The cursor moves only when all of it was done.
func (c *copyist) apply(page changesPage) error {
	if page.Resync {
		stock, price, err := c.readAll()
		if err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stock, c.price, c.cursor = stock, price, page.NextCursor
		c.begun++
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	takeStock(c.stock, page.Stock)
	takePrices(c.price, page.Prices)
	c.cursor = page.NextCursor
	c.pages++
	return nil
}

// listen follows one stream until it ends, for whatever reason.
func (c *copyist) listen(ctx context.Context) error {
	c.mu.Lock()
	cursor := c.cursor
	c.mu.Unlock()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.partner.reads+"/v1/changes/stream", nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.partner.token)
	if cursor != "" {
		request.Header.Set("Last-Event-ID", cursor)
	}
	response, err := (&http.Client{Transport: c.partner.http.Transport}).Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("stream: %s", response.Status)
	}
	c.mu.Lock()
	c.streams++
	c.mu.Unlock()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, is := strings.CutPrefix(lines.Text(), "data: ")
		if !is {
			continue
		}
		var page changesPage
		if err := json.Unmarshal([]byte(data), &page); err != nil {
			return err
		}
		if err := c.apply(page); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (c *copyist) opened() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.streams
}

// poll asks for pages, waiting at the platform.
func (c *copyist) poll(ctx context.Context) error {
	for ctx.Err() == nil {
		c.mu.Lock()
		query := "?wait=2s"
		if c.cursor != "" {
			query += "&since=" + c.cursor
		}
		c.mu.Unlock()
		got, err := c.partner.do(http.MethodGet, "/v1/changes"+query, nil)
		if err == nil && got.status != http.StatusOK {
			err = fmt.Errorf("changes: %d %s", got.status, got.body)
		}
		var page changesPage
		if err == nil {
			err = json.Unmarshal(got.body, &page)
		}
		if err == nil {
			err = c.apply(page)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// follow goes on, whatever ends, until ctx does.
func (c *copyist) follow(ctx context.Context, how func(context.Context) error) {
	again := time.NewTicker(lookEvery)
	defer again.Stop()
	for ; ctx.Err() == nil; <-again.C {
		if err := how(ctx); err != nil && ctx.Err() == nil && strings.Contains(err.Error(), "422") {
			c.mu.Lock()
			c.problems = append(c.problems, err.Error())
			c.mu.Unlock()
		}
	}
}

// right tells whether the copy is what GET answers.
func (c *copyist) right() error {
	stock, price, err := c.readAll()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.problems) > 0 {
		return errors.New(c.problems[0])
	}
	if !maps.Equal(c.stock, stock) || !maps.Equal(c.price, price) {
		return fmt.Errorf("the copy has %v and %v, GET answers %v and %v (%d streams, %d pages, read anew %d times)", c.stock, c.price, stock, price, c.streams, c.pages, c.begun)
	}
	return nil
}

// A partner keeps a copy by the feed, over connections that break and instances that are killed. In the end it
// has what GET answers, though it read everything only when it was told to.
func TestACopyByTheFeedOfChangesIsRightWhateverBreaks(t *testing.T) {
	s := start(t, options{instances: 2, stock: map[string]int64{"A": 1000, "B": 1000, "C/1 x": 1000}, allow: allowed{errors: true, repeats: true}})
	listening, polling := s.copyist(), s.copyist()
	ctx, stop := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { listening.follow(ctx, listening.listen) })
	following.Go(func() { polling.follow(ctx, polling.poll) })
	defer following.Wait()
	defer stop()
	change := func(n int) {
		s.stock["A"] = int64(2000 + n)
		if _, err := s.lab.WMS.SetStock("A", s.stock["A"]); err != nil {
			t.Fatal(err)
		}
		if n%2 == 0 {
			s.partner.order("tok_visa", line{"B", 1})
		}
		if _, err := s.lab.ERP.SetPrice(erp.Price{PriceList: "retail", SKU: "C/1 x", Amount: fmt.Sprintf("3.%02d", n), Currency: "GBP"}); err != nil {
			t.Fatal(err)
		}
	}
	same := func(what string) {
		t.Helper()
		s.eventually(what, func() error { return errors.Join(listening.right(), polling.right()) })
	}
	change(1)
	same("the copies follow")
	for n := range 3 { // connections break while things change
		before := listening.opened()
		change(10 + n)
		s.reads.turn(cut)
		change(20 + n)
		s.reads.turn(restore)
		s.eventually("the stream is opened again", func() error {
			if listening.opened() == before {
				return errors.New("it is not")
			}
			return nil
		})
	}
	change(30)
	same("the copies follow over broken connections")
	victim := s.running()[0]
	change(40)
	s.kill(victim)
	change(41)
	s.restart(victim)
	change(42)
	s.partner.awaitAvailable("A", 2042)
	same("the copies follow over a killed instance")
}
