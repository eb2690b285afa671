package chart

import (
	"fmt"
	"strings"
	"testing"
)

// TestLegend: names of a legend stand in as many lines as they need, each within the chart.
func TestLegend(t *testing.T) {
	c := &Chart{}
	for i := range 13 {
		c.Layers = append(c.Layers, &Line{Mark: Mark{Name: fmt.Sprintf("configuration %d", i), Color: Series(i)}})
	}
	p := Picture{Width: 400, Rows: []Row{{Height: 400, Charts: []*Chart{c}}}}
	x := p.cells()[0]
	n := 0
	for _, line := range x.legend() {
		width := -16.
		for _, l := range line {
			width += legendWidth(l)
			n++
		}
		if width > x.right-x.left {
			t.Errorf("a line of %v of %v", width, x.right-x.left)
		}
	}
	if lines := len(x.legend()); n != 13 || lines < 4 || x.y.end < x.top+float64(lines)*lineSize {
		t.Errorf("%d names in %d lines above %v", n, lines, x.y.end)
	}
	if doc := string(p.HTML("fig")); strings.Count(doc, "configuration") != 13 {
		t.Errorf("%.300s", doc)
	}
}
