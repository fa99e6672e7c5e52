package report

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// Chart is drawn as lines over a common x axis.
type Chart struct {
	Title string
	Note  string // how to read it
	X, Y  Axis
	Lines []Line
	Bands []Band
}

// Axis of a chart.
type Axis struct {
	Name string
	Log  bool
	// Ticks are shown as they are; none: the chart chooses.
	Ticks []Tick
	// Least and Most are part of the axis, whatever the values are. Of a logarithmic one Least is where it
	// begins, and smaller values lie on it.
	Least, Most float64
}

// Tick is a mark on an axis.
type Tick struct {
	At   float64
	Text string
}

// Line is one series.
type Line struct {
	Name   string
	Tone   Tone
	Dashed bool
	Points []Point
}

// Tone is the colour of a line.
type Tone string

// The tones.
const (
	Warm  Tone = "warm"
	Cool  Tone = "cool"
	Warm2 Tone = "warm2"
	Cool2 Tone = "cool2"
)

// Point of a line. One that is no number is a gap.
type Point struct{ X, Y float64 }

// Band is a part of the x axis with a name.
type Band struct {
	From, To float64
	Text     string
	Shaded   bool
}

// Measures of the drawing.
const (
	width, height            = 860, 300
	left, right, top, bottom = 64, 16, 28, 40
	letter                   = 6.0 // width of one
	maxTicks                 = 8
	maxDrawn                 = 4000 // points of a line
)

// scale maps values to the drawing.
type scale struct {
	axis       Axis
	least, add float64 // after the logarithm
	from, to   float64
}

func newScale(axis Axis, values func(func(float64)), from, to float64) scale {
	s := scale{axis: axis, from: from, to: to}
	least, most := s.value(axis.Least), s.value(axis.Most)
	if axis.Log && axis.Most <= 0 {
		most = least
	}
	values(func(v float64) {
		if !shown(v) {
			return
		}
		least, most = min(least, s.value(v)), max(most, s.value(v))
	})
	if most <= least {
		most = least + 1
	}
	s.least, s.add = least, most-least
	return s
}

// mostShown bounds what can be drawn.
const mostShown = 1e15

// shown tells whether it can be drawn, which nothing infinite and no NaN can.
func shown(v float64) bool { return math.Abs(v) <= mostShown }

// value is the logarithm where the axis has one.
func (s scale) value(v float64) float64 {
	if !s.axis.Log {
		return v
	}
	return math.Log10(max(v, s.axis.Least, math.SmallestNonzeroFloat64))
}

func (s scale) at(v float64) float64 { return s.from + (s.value(v)-s.least)/s.add*(s.to-s.from) }

// ticks are round numbers.
func (s scale) ticks() []Tick {
	if s.axis.Ticks != nil {
		return s.axis.Ticks
	}
	var ticks []Tick
	if s.axis.Log {
		for power := math.Ceil(s.least - 1e-9); power <= s.least+s.add+1e-9 && len(ticks) < 2*maxTicks; power++ {
			ticks = append(ticks, Tick{math.Pow(10, power), number(math.Pow(10, power))})
		}
		return ticks
	}
	step := round(s.add / maxTicks)
	for v := math.Ceil(s.least/step) * step; v <= s.least+s.add+step/1e6 && len(ticks) < 2*maxTicks; v += step {
		ticks = append(ticks, Tick{v, number(v)})
	}
	return ticks
}

// round gives the next larger of 1, 2, 5, 10, 20 …
func round(step float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(step)))
	for _, digit := range []float64{1, 2, 5} {
		if step <= digit*power {
			return digit * power
		}
	}
	return 10 * power
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// SVG draws the chart.
func (c Chart) SVG() string {
	x := newScale(c.X, func(each func(float64)) {
		for _, line := range c.Lines {
			for _, p := range line.Points {
				each(p.X)
			}
		}
		for _, b := range c.Bands {
			each(b.From)
			each(b.To)
		}
	}, left, width-right)
	y := newScale(c.Y, func(each func(float64)) {
		for _, line := range c.Lines {
			for _, p := range line.Points {
				each(p.Y)
			}
		}
	}, height-bottom, top)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s">`, width, height, html.EscapeString(c.Title))
	c.bands(&b, x)
	c.grid(&b, x, y)
	for _, line := range c.Lines {
		draw(&b, line, x, y)
	}
	b.WriteString("</svg>")
	return b.String()
}

func (c Chart) bands(b *strings.Builder, x scale) {
	for _, band := range c.Bands {
		from, to := x.at(band.From), x.at(band.To)
		class := "phase"
		if band.Shaded {
			class = "fault"
		}
		fmt.Fprintf(b, `<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d"/>`, class, from, top, max(to-from, 0), height-top-bottom)
		fmt.Fprintf(b, `<line class="edge" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`, from, from, top-14, height-bottom)
		if to-from > letter*float64(len(band.Text)) { // else it would be written over the next one
			fmt.Fprintf(b, `<text class="band" x="%.1f" y="%d">%s</text>`, from+4, top-6, html.EscapeString(band.Text))
		}
	}
}

func (c Chart) grid(b *strings.Builder, x, y scale) {
	for _, tick := range y.ticks() {
		at := y.at(tick.At)
		fmt.Fprintf(b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, left, width-right, at, at)
		fmt.Fprintf(b, `<text class="tick" text-anchor="end" x="%d" y="%.1f">%s</text>`, left-6, at+4, html.EscapeString(tick.Text))
	}
	for _, tick := range x.ticks() {
		fmt.Fprintf(b, `<text class="tick" text-anchor="middle" x="%.1f" y="%d">%s</text>`, x.at(tick.At), height-bottom+16, html.EscapeString(tick.Text))
	}
	fmt.Fprintf(b, `<line class="axis" x1="%d" x2="%d" y1="%d" y2="%d"/>`, left, width-right, height-bottom, height-bottom)
	fmt.Fprintf(b, `<text class="name" text-anchor="middle" x="%d" y="%d">%s</text>`, (left+width-right)/2, height-6, html.EscapeString(c.X.Name))
	fmt.Fprintf(b, `<text class="name" text-anchor="middle" transform="translate(14 %d) rotate(-90)">%s</text>`, (top+height-bottom)/2, html.EscapeString(c.Y.Name))
}

// draw leaves out what can't be drawn, which is a gap, and of very long lines every second point, or more.
func draw(b *strings.Builder, line Line, x, y scale) {
	every := 1 + len(line.Points)/maxDrawn
	dashes := ""
	if line.Dashed {
		dashes = " dashed"
	}
	fmt.Fprintf(b, `<path class="line %s%s" d="`, line.Tone, dashes)
	command := "M"
	for i, p := range line.Points {
		switch {
		case !shown(p.X) || !shown(p.Y):
			command = "M"
		case i%every == 0 || i == len(line.Points)-1:
			fmt.Fprintf(b, "%s%.1f,%.1f ", command, x.at(p.X), y.at(p.Y))
			command = "L"
		}
	}
	fmt.Fprintf(b, `"><title>%s</title></path>`, html.EscapeString(line.Name))
}
