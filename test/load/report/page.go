// Package report writes a page of tables and charts that is one file: it needs no script, no other file and no
// network.
package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

// Page is the whole.
type Page struct {
	Title    string
	Lead     []string // paragraphs
	Sections []Section
}

// Section of a page.
type Section struct {
	Title  string
	Text   []string // paragraphs
	Tables []Table
	Charts []Chart
}

// Table of texts.
type Table struct {
	Head []string
	Rows []Row
}

// Row of a table.
type Row struct {
	Cells []string
	Mark  Mark
}

// Mark tells what a row is judged as.
type Mark string

// The marks.
const (
	Neutral Mark = ""
	Good    Mark = "good"
	Bad     Mark = "bad"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	// A chart escapes what it is given itself.
	"draw": func(c Chart) template.HTML { return template.HTML(c.SVG()) },
}).Parse(pageText))

// Write writes the page.
func Write(w io.Writer, p Page) error {
	if err := page.Execute(w, p); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
