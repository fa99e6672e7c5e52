package retail

import (
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

const (
	productsFile = "products.csv"
	ordersFile   = "orders_full.csv.gz"
	linesFile    = "lines_full.csv.gz"

	stampLayout = "2006-01-02 15:04:05"

	maxProducts = 100_000
	maxOrders   = 1_000_000
	maxLines    = 20_000_000
)

var (
	productColumns = []string{
		"stock_code", "description", "description_variants", "price_last", "price_mode", "price_min", "price_max",
		"distinct_prices", "units_sold", "sale_lines", "first_at", "last_at", "merchandise", "case_twin",
	}
	orderColumns = []string{"invoice_no", "kind", "first_at", "last_at", "customer_id", "country", "lines"}
	lineColumns  = []string{"invoice_no", "stock_code", "quantity", "unit_price", "description_if_not_catalogue"}
)

// Find opens the set in dir if it is there, else generates one by seed.
// An empty dir is an absent one; a broken set is an error, not an absent one.
func Find(dir string, seed uint64) (*Set, error) {
	if dir != "" {
		set, err := Open(dir)
		if !errors.Is(err, fs.ErrNotExist) {
			return set, err
		}
	}
	return Generate(GeneratorConfig{Seed: seed})
}

// Open reads the headers and the products of the set in dir; its lines are
// read where they lie when they are asked for.
func Open(dir string) (*Set, error) {
	s := &Set{Source: "online_retail in " + dir, lines: fileLines{filepath.Join(dir, linesFile)}}
	err := readCSV(filepath.Join(dir, productsFile), productColumns, maxProducts, func(f []string) error {
		p, err := parseProduct(f)
		s.Products = append(s.Products, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = readCSV(filepath.Join(dir, ordersFile), orderColumns, maxOrders, func(f []string) error {
		o, err := parseOrder(f)
		s.headers = append(s.headers, o)
		return err
	})
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, linesFile)); err != nil {
		return nil, fmt.Errorf("open data set: %w", err)
	}
	return s, nil
}

type fileLines struct{ path string }

func (l fileLines) each(wanted func(string) bool, add func(string, Line) error) error {
	return readCSV(l.path, lineColumns, maxLines, func(f []string) error {
		if !wanted(f[0]) {
			return nil
		}
		quantity, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil {
			return fmt.Errorf("quantity: %w", err)
		}
		return add(f[0], Line{SKU: f[1], Quantity: quantity, UnitPrice: f[3]})
	})
}

// readCSV calls row for each record; the slice it gets is reused, its strings are not.
func readCSV(path string, columns []string, maxRows int, row func(fields []string) error) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open data set: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var in io.Reader = file
	if filepath.Ext(path) == ".gz" {
		if in, err = gzip.NewReader(file); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	r := csv.NewReader(in)
	r.ReuseRecord = true
	head, err := r.Read()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if !slices.Equal(head, columns) {
		return fmt.Errorf("%s: columns are %v, want %v", path, head, columns)
	}
	for range maxRows {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = row(fields)
		}
		if err != nil {
			line, _ := r.FieldPos(0)
			return fmt.Errorf("%s:%d: %w", path, line, err)
		}
	}
	return fmt.Errorf("%s: more than %d rows", path, maxRows)
}

func parseProduct(f []string) (Product, error) {
	variants, err1 := strconv.Atoi(f[2])
	prices, err2 := strconv.Atoi(f[7])
	units, err3 := strconv.ParseInt(f[8], 10, 64)
	sales, err4 := strconv.Atoi(f[9])
	first, err5 := time.Parse(stampLayout, f[10])
	last, err6 := time.Parse(stampLayout, f[11])
	return Product{
		SKU: f[0], Description: f[1], Variants: variants, PriceLast: f[3], PriceMode: f[4],
		DistinctPrices: prices, UnitsSold: units, SaleLines: sales, FirstAt: first, LastAt: last,
		Merchandise: f[12] == "1", CaseTwin: f[13],
	}, errors.Join(err1, err2, err3, err4, err5, err6)
}

func parseOrder(f []string) (Order, error) {
	first, err1 := time.Parse(stampLayout, f[2])
	last, err2 := time.Parse(stampLayout, f[3])
	count, err3 := strconv.Atoi(f[6])
	return Order{
		InvoiceNo: f[0], Kind: Kind(f[1]), FirstAt: first, LastAt: last,
		CustomerID: f[4], Country: f[5], LineCount: count,
	}, errors.Join(err1, err2, err3)
}
