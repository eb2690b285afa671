package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image/color"
	"image/png"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
)

var nan, inf = math.NaN(), math.Inf(1)

// sample has every kind of layer, values that cannot be drawn, and text that must be
// escaped.
func sample() *Picture {
	lines := &Chart{
		Title: `A & B <c>`,
		X:     Axis{Name: "time, days"}, Y: Axis{Name: "GPUs", Include: []float64{0}},
		Layers: []Layer{
			&Area{Mark: Mark{Color: Gray.Fade(.2)}, Points: Box(-inf, 2, inf, 3)},
			&Line{Mark: Mark{Name: "used", Color: Blue, Class: "m1", Tip: `a "tip"`},
				Points: []Point{{0, 1}, {1, 4}, {2, nan}, {3, 2}, {4, 3}}},
			&Line{Mark: Mark{Name: "limit", Color: Soft}, Points: []Point{{-inf, 5}, {inf, 5}}, Dash: []float64{4, 3}},
			&Dots{Mark: Mark{Name: "chosen", Color: Orange}, Points: []Point{{1, 4}, {nan, 2}}},
			&Text{Mark: Mark{Color: Ink}, At: Point{3, 2}, Text: "<here>", Align: Center},
		},
	}
	return &Picture{Label: "a < b", Width: 800, Rows: []Row{
		{Height: 200, Charts: []*Chart{lines,
			{X: Axis{Log: true}, Layers: []Layer{&Dots{Points: []Point{{0, 1}, {10, 1e7}}}}}}},
		{Height: 150, Charts: []*Chart{lines, nil}},
		{Height: 150, Charts: []*Chart{Parallel("p", []Dimension{{"x", []Tick{{0, "lo"}}}, {"y", nil}},
			[]Polyline{{At: []float64{0, 1}}, {At: []float64{nan, .5}}})}},
		{Height: 100, Charts: []*Chart{{}}},
	}}
}

// wellFormed parses XML and returns its text.
func wellFormed(t *testing.T, doc string) string {
	t.Helper()
	var text strings.Builder
	for d := xml.NewDecoder(strings.NewReader(doc)); ; {
		token, err := d.Token()
		if err == io.EOF {
			return text.String()
		}
		if err != nil {
			t.Fatalf("%v in %.300s", err, doc)
		}
		if c, ok := token.(xml.CharData); ok {
			text.Write(c)
			text.WriteByte('\n')
		}
	}
}

func TestSVG(t *testing.T) {
	var files [2]bytes.Buffer
	for i := range files {
		if err := sample().Write(&files[i], "x.svg"); err != nil {
			t.Fatal(err)
		}
	}
	doc := files[0].String()
	if doc != files[1].String() {
		t.Error("the same picture gives different bytes")
	}
	text := wellFormed(t, doc)
	for _, want := range []string{"A & B <c>", "time, days", "GPUs", "used", "limit", "chosen", "<here>", "lo"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the picture", want)
		}
	}
	for _, bad := range []string{"NaN", "Inf", "var(", "<title>"} {
		if strings.Contains(doc, bad) {
			t.Errorf("a file contains %q", bad)
		}
	}
	if !strings.Contains(doc, `viewBox="0 0 800 600"`) || !strings.Contains(doc, `aria-label="a &lt; b"`) {
		t.Errorf("size or label: %.400s", doc)
	}
	if n := strings.Count(doc, "<circle"); n != 2+2+2 {
		t.Errorf("%d circles, want two charts with a dot and its sample, and one with two", n)
	}
}

func TestHTML(t *testing.T) {
	doc := string(sample().HTML("fig wide"))
	text := wellFormed(t, doc)
	if !strings.Contains(text, `a "tip"`) || !strings.Contains(doc, `class="m1"`) ||
		!strings.HasPrefix(doc, `<svg class="fig wide"`) {
		t.Errorf("classes or tips: %.400s", doc)
	}
	css := string(CSS())
	for _, v := range regexp.MustCompile(`var\((--\w+)\)`).FindAllStringSubmatch(doc, -1) {
		if n := strings.Count(css, v[1]+":#"); n != 3 {
			t.Errorf("%s is declared %d times, want for light, dark and print", v[1], n)
		}
	}
	if strings.Contains(doc, `="#`) {
		t.Error("a colour does not follow the page's scheme")
	}
}

func TestPage(t *testing.T) {
	var b bytes.Buffer
	p := Page{Name: "<trace>", Text: "1 < 2", Lead: "a < b", Facts: []Fact{{Name: "jobs", Value: "3"}},
		Sections: []Section{{Title: "s", Rows: sample().Rows}}}
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	doc := b.String()
	if !strings.Contains(doc, "<h1>&lt;trace&gt;</h1>") || !strings.Contains(doc, "1 &lt; 2") ||
		strings.Count(doc, "<svg") != 2*strings.Count(doc, "<figure>") ||
		!strings.Contains(doc, "a &lt; b") || strings.Contains(doc, "SYNTHETIC") {
		t.Errorf("%.2000s", doc)
	}
	if regexp.MustCompile(`ZgotmplZ|src=|href=|<script|url\(`).MatchString(doc) {
		t.Error("the page needs other files")
	}
}

func TestPNG(t *testing.T) {
	testshared.Full(t)
	var b bytes.Buffer
	if err := sample().Write(&b, "x.png"); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	if size := img.Bounds().Size(); size.X != 1600 || size.Y != 1200 {
		t.Errorf("%v, want two pixels for one of the picture", size)
	}
	seen := map[color.RGBA]bool{}
	for y := range 1200 {
		for x := range 1600 {
			seen[color.RGBAModel.Convert(img.At(x, y)).(color.RGBA)] = true
		}
	}
	for _, c := range []Color{Paper, Blue, Orange, Soft, Grid} {
		if !seen[color.RGBAModel.Convert(c).(color.RGBA)] {
			t.Errorf("nothing has the colour %s", palette[c.entry].name)
		}
	}
}

// TestAligned checks that planes of a column share their horizontal edges and planes of
// a row their vertical ones.
func TestAligned(t *testing.T) {
	p := sample()
	p.Rows[1].Charts[0] = &Chart{Y: Axis{Ticks: []Tick{{1, "a long label of an axis"}}},
		Layers: []Layer{&Dots{Points: []Point{{0, 0}, {1, 2}}}}}
	c := p.cells()
	above, beside, below := c[0], c[1], c[2]
	if above.x.start != below.x.start || above.x.end != below.x.end || above.y.start != beside.y.start ||
		above.y.end != beside.y.end {
		t.Errorf("planes %+v beside %+v above %+v", above.plane, beside.plane, below.plane)
	}
	for i, x := range c {
		if !(x.left <= x.x.start && x.x.start < x.x.end && x.x.end <= x.right && x.top <= x.y.end &&
			x.y.end < x.y.start && x.y.start <= x.bottom) {
			t.Errorf("chart %d: the plane %+v is not in its place %v to %v, %v to %v", i, x.plane, x.left, x.right,
				x.top, x.bottom)
		}
	}
}

func labels(ticks []Tick) (out []string) {
	for _, t := range ticks {
		out = append(out, t.Label)
	}
	return out
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		got  []Tick
		want string
	}{
		{RoundTicks(0, 10, 5), "0 2 4 6 8 10"},
		{RoundTicks(.98, 1.02, 4), "0.98 0.99 1.00 1.01 1.02"},
		{RoundTicks(-1, 1, 4), "-1.0 -0.5 0 0.5 1.0"},
		{RoundTicks(29600, 30100, 5), "29.6k 29.7k 29.8k 29.9k 30.0k 30.1k"},
		{RoundTicks(0, 3e6, 3), "0 1M 2M 3M"},
		{RoundTicks(1, 1, 3), ""},
		{RoundTicks(0, inf, 3), ""},
		{LogTicks(1, 1e4), "1 10 100 1k 10k"},
		{LogTicks(3, 60), "5 10 20 50"},
		{LogTicks(95, 140), "100 120 140"},
		{Spread([]Tick{{0, "a"}, {.1, "b"}, {.5, "c"}, {.95, "d"}, {1, "e"}}, .2), "a c e"},
		{Spread([]Tick{{0, "a"}}, .2), "a"},
	} {
		if got := strings.Join(labels(c.got), " "); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	for v, want := range map[float64]string{0: "0", .012345: "0.0123", 999: "999", 1234: "1.23k", 12345: "12.3k",
		2.97e6: "2.97M", 2e10: "20G", -5000: "-5k"} {
		if got := Compact(v); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
	for d, want := range map[time.Duration]string{time.Second: "1s", 90 * time.Second: "1m", 24 * time.Hour: "1d",
		10 * time.Hour: "10h"} {
		if got := ShortDuration(d); got != want {
			t.Errorf("%v is written %s, want %s", d, got, want)
		}
	}
}

func TestClip(t *testing.T) {
	for name, want := range map[string]string{"vc1": "vc1", "überlang": "überlang", "überlange": "überlan…"} {
		if got := Clip(name, 8); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestScale(t *testing.T) {
	for _, c := range []struct {
		axis   Axis
		values []float64
		want   string
	}{
		{Axis{}, []float64{1, 2, nan, inf}, "0.96 2.04 false"},
		{Axis{Include: []float64{0}}, []float64{1, 2}, "0 2.08 false"},
		{Axis{Min: 1, Max: 3}, []float64{10}, "1 3 false"},
		{Axis{Log: true, Min: 1, Max: 100}, nil, "1 100 true"},
		{Axis{Log: true}, []float64{0, 10}, "0 10.4 false"}, // a logarithm has no place for 0
		{Axis{Log: true}, []float64{5}, "2.5 10 true"},
		{Axis{}, []float64{5, 5}, "4.5 5.5 false"},
		{Axis{}, nil, "0 1.04 false"},
	} {
		s := c.axis.fit(slices.Clone(c.values))
		if got := fmt.Sprintf("%.4g %.4g %v", s.lo, s.hi, s.log); got != c.want {
			t.Errorf("%+v over %v: %s, want %s", c.axis, c.values, got, c.want)
		}
	}
	s := scale{lo: 1, hi: 100, start: 0, end: 200, log: true}
	for v, want := range map[float64]float64{1: 0, 10: 100, 100: 200, -inf: 0, inf: 200, 0: 0} {
		if got := s.at(v); got != want {
			t.Errorf("%v is at %v, want %v", v, got, want)
		}
	}
}

func TestCurves(t *testing.T) {
	curve := []Point{{0, 1}, {2, 3}}
	if got, want := Steps(curve, 5), []Point{{0, 1}, {2, 1}, {2, 3}, {5, 3}}; !slices.Equal(got, want) {
		t.Errorf("steps %v, want %v", got, want)
	}
	if got, want := Under(curve), []Point{{0, 1}, {2, 3}, {2, -inf}, {0, -inf}}; !slices.Equal(got, want) {
		t.Errorf("under the curve %v, want %v", got, want)
	}
	if Under(nil) != nil || Steps(nil, 1) != nil {
		t.Error("no curve has points")
	}
	if r, _, _, a := Blue.Fade(.5).RGBA(); a != 0x7fff || r > a {
		t.Errorf("half opaque: red %#x of alpha %#x", r, a)
	}
	f := style{size: labelSize}
	if long := strings.Repeat("p95_jct ", 20); f.width(f.fit(long, 100)) > 100 || f.fit("short", 100) != "short" {
		t.Errorf("%q is wider than 100", f.fit(long, 100))
	}
	if Series(8) != Series(0) || Series(3) == Series(4) || SeriesDash(7) != nil || SeriesDash(8) == nil {
		t.Error("colours of series")
	}
}
