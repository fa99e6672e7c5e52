package report_test

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"andes/test/load/report"
)

func sample() report.Page {
	return report.Page{
		Title: "A <title> & more", Lead: []string{`a "quoted" <b>lead</b>`},
		Sections: []report.Section{{
			Title: "One", Text: []string{"<script>alert(1)</script>"},
			Tables: []report.Table{{Head: []string{"a", "b"}, Rows: []report.Row{{Cells: []string{"<i>", "≤ 3"}, Mark: report.Bad}}}},
			Charts: []report.Chart{chart()},
		}},
	}
}

func chart() report.Chart {
	return report.Chart{
		Title: "Latency <ms>", Note: "a & b", X: report.Axis{Name: "s"}, Y: report.Axis{Name: "ms", Log: true, Least: 0.1},
		Lines: []report.Line{{Name: "AS-IS & <x>", Tone: report.Warm, Points: []report.Point{{0, 1}, {1, 5000}, {2, 0}, {3, math.NaN()}, {4, math.Inf(1)}}}},
		Bands: []report.Band{{From: 1, To: 2, Text: "down <here>", Shaded: true}},
	}
}

func TestAPageIsOneFileThatRunsNothing(t *testing.T) {
	var b strings.Builder
	if err := report.Write(&b, sample()); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, foreign := range []string{"<script", "src=", "href=", "@import", "url("} {
		if strings.Contains(text, foreign) {
			t.Errorf("it has %s", foreign)
		}
	}
	for _, address := range regexp.MustCompile(`https?://[^"' <]+`).FindAllString(text, -1) {
		if address != "http://www.w3.org/2000/svg" { // a name, not an address
			t.Errorf("it leads to %s", address)
		}
	}
	for _, shown := range []string{"A &lt;title&gt; &amp; more", "&lt;i&gt;", "AS-IS &amp; &lt;x&gt;", `class="bad"`} {
		if !strings.Contains(text, shown) {
			t.Errorf("%s is missing", shown)
		}
	}
}

// wellFormed reads the drawing and gives all its coordinates.
func wellFormed(t interface{ Fatalf(string, ...any) }, svg string) (numbers []float64) {
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return numbers
		}
		if err != nil {
			t.Fatalf("%v: %s", err, svg)
		}
		element, is := token.(xml.StartElement)
		if !is {
			continue
		}
		for _, attribute := range element.Attr {
			switch attribute.Name.Local {
			case "x", "x1", "x2", "y", "y1", "y2", "d", "width", "height":
				for _, text := range strings.FieldsFunc(attribute.Value, func(r rune) bool { return strings.ContainsRune(" ,ML", r) }) {
					n, err := strconv.ParseFloat(text, 64)
					if err != nil {
						t.Fatalf("%s in %s", text, attribute.Value)
					}
					numbers = append(numbers, n)
				}
			}
		}
	}
}

func TestAChartStaysInsideItsFrame(t *testing.T) {
	value := rapid.OneOf(rapid.Float64Range(-1e9, 1e9), rapid.SampledFrom([]float64{0, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, 1e-300}))
	rapid.Check(t, func(t *rapid.T) {
		c := report.Chart{
			X: report.Axis{Log: rapid.Bool().Draw(t, "log x"), Least: 0.1}, Y: report.Axis{Log: rapid.Bool().Draw(t, "log y"), Least: rapid.SampledFrom([]float64{0.1, 1}).Draw(t, "least")},
		}
		for range rapid.IntRange(0, 3).Draw(t, "lines") {
			var line report.Line
			for range rapid.IntRange(0, 5).Draw(t, "points") {
				line.Points = append(line.Points, report.Point{X: value.Draw(t, "x"), Y: value.Draw(t, "y")})
			}
			c.Lines = append(c.Lines, line)
		}
		const widest = 860
		for _, n := range wellFormed(t, c.SVG()) {
			if math.IsNaN(n) || n < -1 || n > widest {
				t.Fatalf("%g lies outside: %s", n, c.SVG())
			}
		}
	})
}

func TestAChartWithoutPointsIsStillOne(t *testing.T) {
	if len(wellFormed(t, report.Chart{Title: "none"}.SVG())) == 0 {
		t.Error("there is no frame")
	}
	wellFormed(t, chart().SVG())
}

func TestAGapIsNotDrawnOver(t *testing.T) {
	svg := report.Chart{Lines: []report.Line{{Points: []report.Point{{0, 1}, {1, 1}, {2, math.NaN()}, {3, 1}, {4, 1}}}}}.SVG()
	if strings.Count(svg, "M") != 2 || strings.Count(svg, "L") != 2 {
		t.Error(svg)
	}
}

func TestAVeryLongLineIsThinnedAndKeepsItsEnd(t *testing.T) {
	line := report.Line{Name: "long"}
	for i := range 100_000 {
		line.Points = append(line.Points, report.Point{X: float64(i), Y: 1})
	}
	svg := report.Chart{Lines: []report.Line{line}}.SVG()
	if len(svg) > 100_000 || !strings.Contains(svg, "844.0,") {
		t.Errorf("%d bytes", len(svg))
	}
}
