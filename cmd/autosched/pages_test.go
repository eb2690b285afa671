package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

// No text of a figure is cut off or lies over another, on a screen or a phone, and marks
// give their values where the pointer is.
func TestFiguresOfPagesAreLegible(t *testing.T) {
	testshared.Full(t)
	dir := t.TempDir()
	at := []string{"--trace", "sample", "--at", "2017-10-10T12:00:00Z", "--nodes", "20", "--budget", "14",
		"--futures", "3"}
	for name, args := range map[string][]string{
		"stats": {"trace", "stats", "sample"},
		"tune":  append([]string{"tune"}, at...),
		"front": append([]string{"tune", "--pareto", "avg_jct,p99_jct"}, at...),
	} {
		path := filepath.Join(dir, name+".html")
		if code, _, errs := clitest.Run(append(args, "--plot", path)...); code != 0 {
			t.Fatalf("%s: %s", name, errs)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		page := string(b)
		for _, want := range []string{"prefers-color-scheme:dark", "max-width: 680px", `class="fig wide"`,
			`class="fig narrow"`, "<title>"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: no %q", name, want)
			}
		}
		figures := 0
		for _, svg := range regexp.MustCompile(`(?s)<svg class="fig.*?</svg>`).FindAllString(page, -1) {
			figures++
			checkTexts(t, name, svg)
			if !strings.Contains(svg, "</title>") {
				t.Errorf("%s: a figure has no values where the pointer is: %.120s", name, svg)
			}
		}
		if strings.Contains(page, "..<") {
			t.Errorf("%s: a sentence ends twice", name)
		}
		if figures < 9 {
			t.Errorf("%s: %d figures", name, figures)
		}
	}
}

// textBox is where a text is drawn.
type textBox struct {
	text                     string
	left, top, right, bottom float64
	halo                     bool // legible over lines and other texts
}

var (
	viewBox     = regexp.MustCompile(`viewBox="0 0 (\S+) (\S+)"`)
	textElement = regexp.MustCompile(`<text x="(\S+)" y="(\S+)"([^>]*)>([^<]*)</text>`)
	fontSize    = regexp.MustCompile(`font-size="(\S+)"`)
)

func checkTexts(t *testing.T, page, svg string) {
	t.Helper()
	number := func(s string) float64 {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	size := viewBox.FindStringSubmatch(svg)
	wide, high := number(size[1]), number(size[2])
	var boxes []textBox
	for _, m := range textElement.FindAllStringSubmatch(svg, -1) {
		x, y, font := number(m[1]), number(m[2]), 12.0
		if f := fontSize.FindStringSubmatch(m[3]); f != nil {
			font = number(f[1])
		}
		width := .52 * font * float64(len([]rune(m[4]))) // of the usual fonts
		left := x
		switch {
		case strings.Contains(m[3], `"middle"`):
			left -= width / 2
		case strings.Contains(m[3], `"end"`):
			left -= width
		}
		b := textBox{m[4], left, y - .7*font, left + width, y + .1*font, strings.Contains(m[3], "paint-order")}
		if strings.Contains(m[3], "rotate(-90") { // centred at y
			b.left, b.right, b.top, b.bottom = x-.7*font, x+.1*font, y-width/2, y+width/2
		}
		if b.left < -1 || b.top < 0 || b.right > wide+1 || b.bottom > high {
			t.Errorf("%s: %q is cut off at %.0f..%.0f, %.0f..%.0f of %.0fx%.0f", page, b.text, b.left, b.right, b.top,
				b.bottom, wide, high)
		}
		for _, o := range boxes {
			if !(b.halo && o.halo) && b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom {
				t.Errorf("%s: %q lies over %q", page, b.text, o.text)
			}
		}
		boxes = append(boxes, b)
	}
}
